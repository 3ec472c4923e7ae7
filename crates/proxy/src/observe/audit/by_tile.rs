//! Look-up of entries in the tiles of a static CT log, by the index in the SCT.

use lucarne_ct::{CheckpointVerifier, PublicKey};
use lucarne_ctread::{Problem, ReadError, VerifiedTree, file, load_edge};
use lucarne_tlog::{Hash, Level, TILE_WIDTH, Tile, inclusion_proof, inclusion_tiles};
use serde_json::json;

use super::super::inventory::{Due, Finding, Head};
use super::Failure;
use super::paced::Paced;

pub(super) struct ByTile {
    files: Paced,
    verifier: CheckpointVerifier,
    tree: VerifiedTree,
}

impl ByTile {
    pub(super) fn new(files: Paced, prefix: &str, key: &PublicKey) -> Result<Self, Failure> {
        // The origin is the submission prefix without its scheme and its last slash.
        let origin = prefix
            .split_once("://")
            .map_or(prefix, |(_, origin)| origin);
        Ok(ByTile {
            files,
            verifier: CheckpointVerifier::new(origin.trim_end_matches('/'), key.spki())?,
            tree: VerifiedTree::default(),
        })
    }

    pub(super) async fn head(&self) -> Result<Head, Failure> {
        let wrong = |problem| ReadError::new("checkpoint", problem);
        let note = file(&self.files, "checkpoint").await?;
        let signed = self.verifier.verify(&note);
        let (checkpoint, timestamp) = signed.map_err(|error| wrong(Problem::Checkpoint(error)))?;
        let (size, root) = (checkpoint.size, checkpoint.root);
        let edge = load_edge(&self.files, size).await?;
        if edge.root() != root {
            return Err(wrong(Problem::Root { size, root }).into());
        }
        self.tree.advance(edge);
        Ok(Head {
            size,
            root,
            timestamp,
            note: note.into(),
        })
    }

    pub(super) async fn extends(&self, old: &Head) -> Result<(), Failure> {
        let root = self.tree.root_at(&self.files, old.size).await?;
        if root == old.root {
            return Ok(());
        }
        let proof = json!({"size": old.size, "rootInNewTree": root.to_string()});
        Err(Failure::TwoHistories(Box::new(proof)))
    }

    pub(super) async fn look_up(&self, due: &Due, head: &Head) -> Result<Finding, Failure> {
        let Some(index) = due.index else {
            let why = "the SCT of a static CT log has no leaf_index";
            return Ok(Finding::Missing(json!({"reason": why})));
        };
        if index >= head.size {
            let why = "the tree ends before the index of the SCT";
            return Ok(Finding::Missing(json!({"reason": why, "index": index})));
        }
        let found = self
            .hashes(0, index / TILE_WIDTH, (index % TILE_WIDTH) as usize)
            .await?;
        if found == due.leaf {
            return Ok(Finding::Included);
        }
        let path = self.proof(index, head.size).await?;
        let path: Vec<_> = path.iter().map(Hash::to_string).collect();
        Ok(Finding::Missing(json!({
            "reason": "the tree has another entry at the index of the SCT",
            "index": index, "leafHash": found.to_string(), "auditPath": path,
        })))
    }

    /// Returns a verified hash of a tile.
    async fn hashes(&self, level: u8, tile: u64, place: usize) -> Result<Hash, Failure> {
        let hashes = self.tree.hashes(&self.files, level, tile).await?;
        let beyond = || ReadError::new(format!("tile/{level}/{tile}"), Problem::Beyond);
        Ok(hashes.get(place).copied().ok_or_else(beyond)?)
    }

    /// Returns the proof that a leaf is in the verified tree.
    async fn proof(&self, index: u64, size: u64) -> Result<Vec<Hash>, Failure> {
        let mut tiles = Vec::new();
        for tile in inclusion_tiles(index, size) {
            let Level::Hashes(level) = tile.level() else {
                continue;
            };
            let hashes = self.tree.hashes(&self.files, level, tile.index()).await?;
            let hashes = hashes.iter().take(tile.width().into());
            tiles.push((tile, hashes.flat_map(|hash| hash.0).collect::<Vec<u8>>()));
        }
        let mut read = |tile: Tile| {
            let found = tiles.iter().find(|(found, _)| *found == tile);
            found.map(|(_, bytes)| bytes.clone()).ok_or("not read")
        };
        inclusion_proof(index, size, &mut read)
            .map_err(|error| Failure::Response("tile", error.to_string()))
    }
}
