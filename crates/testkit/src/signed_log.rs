//! A small log that signs two histories, for tests of witnesses.

use std::collections::HashMap;

use lucarne_cosign::{AddCheckpoint, SignSubtree};
use lucarne_tlog::{
    Checkpoint, Cosigner, EMPTY_ROOT, Hash, HashReader, NoteSignature, RightEdge, SignedNote,
    Subtree, Tile, consistency_proof, leaf_hash, subtree_consistency_proof, subtree_root,
};

/// Time of the signatures of the log, in seconds since 1970.
const NOW: u64 = 1_790_000_000;

/// A log of 40 leaves, which depend on its branch. Two branches have the same first ten leaves.
pub struct SignedLog {
    /// Origin of the log.
    pub origin: String,
    /// The key that signs its checkpoints.
    pub key: Cosigner,
    tiles: HashMap<Tile, Vec<u8>>,
    /// The root of each size.
    pub roots: Vec<Hash>,
}

impl SignedLog {
    /// Creates a log with an Ed25519 cosigner as its key.
    ///
    /// # Panics
    /// If the origin is not the name of a key.
    pub fn new(origin: &str, branch: u8) -> Self {
        let key = Cosigner::ed25519(origin, &[1; 32]);
        Self::with_key(key.expect("an origin is the name of a key"), branch)
    }

    /// Creates a log with this key, whose name is the origin.
    pub fn with_key(key: Cosigner, branch: u8) -> Self {
        let mut edge = RightEdge::new();
        let (mut tiles, mut roots) = (HashMap::new(), vec![EMPTY_ROOT]);
        for leaf in 0..40u8 {
            let branch = if leaf < 10 { 0 } else { branch };
            tiles.extend(edge.append(&[leaf_hash(&[branch, leaf])]));
            roots.push(edge.root());
        }
        Self {
            origin: key.verifier().name().to_owned(),
            key,
            tiles,
            roots,
        }
    }

    /// Returns the tiles of the log.
    pub fn reader(&self) -> impl HashReader<Error = ()> {
        |tile: Tile| self.tiles.get(&tile).cloned().ok_or(())
    }

    /// Returns the tree of this size.
    pub fn checkpoint(&self, size: u64) -> Checkpoint {
        Checkpoint {
            origin: self.origin.clone(),
            size,
            root: self.roots[size as usize],
        }
    }

    /// Signs a checkpoint.
    ///
    /// # Panics
    /// If the key cannot sign it.
    pub fn signed(&self, checkpoint: &Checkpoint) -> SignedNote {
        let text = checkpoint.to_string();
        let signature = self.key.cosign(&text, NOW);
        SignedNote {
            text,
            signatures: vec![signature.expect("a log signs its checkpoints")],
        }
    }

    /// Returns a request to cosign the tree of this size, with its consistency proof.
    ///
    /// # Panics
    /// If the log has no trees of these sizes.
    pub fn request(&self, old: u64, size: u64) -> AddCheckpoint {
        let checkpoint = self.checkpoint(size);
        let proof = consistency_proof(old, size, &mut self.reader());
        AddCheckpoint {
            old,
            proof: proof.expect("a log proves its growth"),
            note: self.signed(&checkpoint),
            checkpoint,
        }
    }

    /// Returns a request to cosign a subtree of the tree of this size, which has `cosignatures`.
    ///
    /// # Panics
    /// If the tree does not have the subtree.
    pub fn subtree_request(
        &self,
        subtree: Subtree,
        size: u64,
        cosignatures: Vec<NoteSignature>,
    ) -> SignSubtree {
        let checkpoint = self.checkpoint(size);
        let mut tiles = self.reader();
        let proof = subtree_consistency_proof(subtree, size, &mut tiles);
        SignSubtree {
            subtree,
            hash: subtree_root(subtree, size, &mut tiles).expect("a log has its subtrees"),
            proof: proof.expect("a log proves its subtrees"),
            note: SignedNote {
                text: checkpoint.to_string(),
                signatures: cosignatures,
            },
            checkpoint,
        }
    }
}
