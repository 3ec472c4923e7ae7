//! The entries of a data tile, compared with the leaf hashes of the tree.

use std::collections::BTreeSet;

use lucarne_ct::{Fingerprint, TileEntries};
use lucarne_tlog::{Hash, Tile};

use crate::{Problem, ReadError};

/// The hashes, issuers and newest time of the entries of a data tile.
#[derive(Debug, Default)]
pub struct TileContent {
    /// Leaf hash of each entry.
    pub leaves: Vec<Hash>,
    /// Certificates that the entries name.
    pub fingerprints: BTreeSet<Fingerprint>,
    /// Timestamp of the newest entry, in milliseconds since 1970.
    pub newest: u64,
}

impl TileContent {
    /// Parses the uncompressed bytes of a data tile.
    ///
    /// # Errors
    /// [`Problem::Entry`], [`Problem::Rest`], [`Problem::Index`].
    pub fn parse(tile: Tile, bytes: &[u8]) -> Result<Self, ReadError> {
        let entries = TileEntries::first(bytes, tile.start_leaf(), tile.width().into());
        TileContent::of(tile, entries)
    }

    /// Collects the entries, which must be all of the tile.
    pub(crate) fn of(tile: Tile, mut entries: TileEntries<'_>) -> Result<Self, ReadError> {
        let wrong = |problem| ReadError::of(tile, problem);
        let mut content = TileContent::default();
        let mut buffer = Vec::with_capacity(4096);
        for (index, entry) in (tile.start_leaf()..).zip(entries.by_ref()) {
            let leaf = entry
                .map_err(|source| wrong(Problem::Entry { index, source }))?
                .leaf;
            let found = leaf.index;
            if found != index {
                return Err(wrong(Problem::Index { index, found }));
            }
            content.leaves.push(leaf.leaf_hash(&mut buffer));
            content.fingerprints.extend(leaf.fingerprints);
            content.newest = content.newest.max(leaf.timestamp);
        }
        match entries.rest().len() {
            0 => Ok(content),
            rest => Err(wrong(Problem::Rest(rest))),
        }
    }

    /// Compares the entries of `tile` with the leaf hashes in `tree`, which may continue after the
    /// tile.
    ///
    /// # Errors
    /// [`Problem::Leaf`].
    pub fn compare(&self, tile: Tile, tree: &[Hash]) -> Result<(), ReadError> {
        let leaves = self.leaves.iter().enumerate();
        let mut wrong = leaves.filter(|(n, leaf)| tree.get(*n) != Some(*leaf));
        match wrong.next() {
            None => Ok(()),
            Some((n, _)) => {
                let index = tile.start_leaf() + n as u64;
                Err(ReadError::of(tile, Problem::Leaf(index)))
            }
        }
    }
}
