//! A log whose entries are uploaded to mirrors (C2SP tlog-mirror).

use std::collections::HashMap;
use std::ops::Range;

use lucarne_cosign::AddCheckpoint;
use lucarne_cosign::mirror::upload::{Package, package_leaves};
use lucarne_storage::Assets;
use lucarne_tlog::{
    Checkpoint, Cosigner, EMPTY_ROOT, Hash, HashReader, RightEdge, SignedNote, Subtree, Tile,
    consistency_proof, data_tiles_between, leaf_hash, subtree_consistency_proof, tiles_between,
};

/// Time of the signatures of the log, in seconds since 1970.
const NOW: u64 = 1_790_000_000;

/// A log whose entries have different lengths.
pub struct PushedLog {
    /// The key that signs its checkpoints, which has the name of the log.
    pub key: Cosigner,
    entries: Vec<Vec<u8>>,
    /// The widest tile at each place.
    tiles: HashMap<Tile, Vec<u8>>,
    roots: Vec<Hash>,
}

#[allow(clippy::unwrap_used, clippy::missing_panics_doc)]
impl PushedLog {
    /// Creates a log of `size` entries, with an Ed25519 cosigner as its key.
    pub fn new(origin: &str, size: usize) -> Self {
        Self::with_key(Cosigner::ed25519(origin, &[1; 32]).unwrap(), size)
    }

    /// Creates a log of `size` entries with this key, whose name is the origin.
    pub fn with_key(key: Cosigner, size: usize) -> Self {
        let entry = |n: usize| format!("entry {n}{:1$}", "", n % 50).into_bytes();
        let entries: Vec<Vec<u8>> = (0..size).map(entry).collect();
        let mut edge = RightEdge::new();
        let (mut tiles, mut roots) = (HashMap::new(), vec![EMPTY_ROOT]);
        for entry in &entries {
            let changed = edge.append(&[leaf_hash(entry)]).into_iter();
            tiles.extend(changed.map(|(tile, bytes)| (tile.full(), bytes)));
            roots.push(edge.root());
        }
        Self {
            key,
            entries,
            tiles,
            roots,
        }
    }

    /// Returns the origin.
    pub fn origin(&self) -> &str {
        self.key.verifier().name()
    }

    /// Returns the tiles of any width.
    pub fn reader(&self) -> impl HashReader<Error = ()> {
        |tile: Tile| {
            let bytes = self.tiles.get(&tile.full()).ok_or(())?;
            Ok(bytes[..Hash::LENGTH * usize::from(tile.width())].to_vec())
        }
    }

    /// Returns a request to add the checkpoint of this size.
    pub fn request(&self, old: u64, size: u64) -> AddCheckpoint {
        let (origin, root) = (self.origin().to_owned(), self.roots[size as usize]);
        let checkpoint = Checkpoint { origin, size, root };
        let text = checkpoint.to_string();
        let signatures = vec![self.key.cosign(&text, NOW).unwrap()];
        AddCheckpoint {
            old,
            proof: consistency_proof(old, size, &mut self.reader()).unwrap(),
            note: SignedNote { text, signatures },
            checkpoint,
        }
    }

    /// Returns a package with its proof for the checkpoint of this size.
    pub fn package(&self, leaves: Range<u64>, size: u64) -> Package {
        let subtree = Subtree::new(leaves.start / 256 * 256, leaves.end).unwrap();
        let (mut entries, mut ends) = (Vec::new(), Vec::new());
        for entry in &self.entries[leaves.start as usize..leaves.end as usize] {
            entries.extend_from_slice(&(entry.len() as u16).to_be_bytes());
            entries.extend_from_slice(entry);
            ends.push(entries.len());
        }
        Package {
            leaves,
            entries,
            ends,
            proof: subtree_consistency_proof(subtree, size, &mut self.reader()).unwrap(),
        }
    }

    /// Returns the body of `add-entries` with at most this number of packages.
    pub fn upload(&self, start: u64, end: u64, ticket: &[u8], packages: usize) -> Vec<u8> {
        let length = |bytes: &[u8]| (bytes.len() as u16).to_be_bytes();
        let origin = self.origin().as_bytes();
        let mut body = [&length(origin)[..], origin].concat();
        body.extend_from_slice(&start.to_be_bytes());
        body.extend_from_slice(&end.to_be_bytes());
        body.extend_from_slice(&length(ticket));
        body.extend_from_slice(ticket);
        let mut next = start;
        for _ in 0..packages {
            let Some(leaves) = package_leaves(next, end) else {
                break;
            };
            next = leaves.end;
            let package = self.package(leaves, end);
            body.extend_from_slice(&package.entries);
            body.push(package.proof.len() as u8);
            body.extend(package.proof.iter().flat_map(|hash| hash.0));
        }
        body
    }

    /// Verifies that a store has all files of the checkpoint of this size: its entries, and the
    /// tiles of its tree.
    pub async fn assert_complete(&self, assets: &dyn Assets, size: u64) {
        for tile in tiles_between(0, size) {
            let stored = assets.get(&tile.path()).await.unwrap();
            let stored = stored.unwrap_or_else(|| panic!("{tile} of {size} entries"));
            assert_eq!(
                stored,
                self.reader().read(tile).unwrap(),
                "{tile} of {size}"
            );
        }
        for tile in data_tiles_between(0, size) {
            let stored = assets
                .get(&tile.entries_path().unwrap())
                .await
                .unwrap()
                .unwrap();
            let bundle = lucarne_ctread::gunzip(stored).unwrap();
            assert_eq!(
                bundle,
                self.package(tile.start_leaf()..tile.end_leaf(), size)
                    .entries
            );
        }
    }
}
