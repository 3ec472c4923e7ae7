//! Entries of a data tile, and their comparison with the tree.

use std::collections::{BTreeMap, BTreeSet};

use lucarne_ct::{Fingerprint, TileEntries, TileEntry, TileLeafError, merkle_tree_leaf};
use lucarne_tlog::{Hash, Tile, leaf_hash};

use super::checks::{self, CheckSink, Finding};
use super::extra_data::{ChainMismatch, ExtraData};
use super::fetch::FetchError;
use super::pending_scts::PendingSct;

/// The reasons why a data tile does not have the entries of the tree or of the submissions.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EntryError {
    #[error("{tile}: entry {index}: {source}")]
    Malformed {
        tile: Tile,
        index: u64,
        source: TileLeafError,
    },
    #[error("{tile}: {bytes} bytes after the last entry")]
    Rest { tile: Tile, bytes: usize },
    #[error("{tile}: entry {index} contains the index {found}")]
    Index { tile: Tile, index: u64, found: u64 },
    #[error("{tile}: entry {index} does not hash to the tree's leaf")]
    Hash { tile: Tile, index: u64 },
    #[error("{tile}: entry {index} has another precertificate than the submitted one")]
    Precertificate { tile: Tile, index: u64 },
    #[error("{tile}: entry {index}: {source}")]
    Chain {
        tile: Tile,
        index: u64,
        source: ChainMismatch,
    },
}

impl From<EntryError> for Finding {
    fn from(error: EntryError) -> Self {
        let check = match error {
            EntryError::Malformed { .. } | EntryError::Rest { .. } => checks::ENTRY_WELLFORMED,
            EntryError::Index { .. } => checks::ENTRY_INDEX,
            EntryError::Hash { .. } => checks::ENTRY_HASH,
            EntryError::Precertificate { .. } => checks::ENTRY_PRECERTIFICATE,
            EntryError::Chain { .. } => checks::ENTRY_CHAIN,
        };
        Finding::new(check, error)
    }
}

impl From<EntryError> for FetchError {
    fn from(error: EntryError) -> Self {
        FetchError::Faulty(error.into())
    }
}

/// The hashes, issuers and newest time of the entries of a data tile.
#[derive(Debug, Default)]
pub(crate) struct ReadTile {
    /// Leaf hash of each entry.
    pub(crate) leaves: Vec<Hash>,
    /// Certificates that the entries name.
    pub(crate) fingerprints: BTreeSet<Fingerprint>,
    /// Timestamp of the newest entry, in milliseconds since 1970.
    pub(crate) newest: u64,
}

/// Parses a data tile.
///
/// # Errors
/// [`EntryError::Malformed`], [`EntryError::Rest`], [`EntryError::Index`].
pub(crate) fn read(tile: &Tile, bytes: &[u8]) -> Result<ReadTile, EntryError> {
    let tile = *tile;
    let mut parts = ReadTile::default();
    let mut buffer = Vec::with_capacity(4096);
    let mut entries = TileEntries::first(bytes, tile.start_leaf(), tile.width().into());
    for (index, entry) in (tile.start_leaf()..).zip(entries.by_ref()) {
        let malformed = |source| EntryError::Malformed {
            tile,
            index,
            source,
        };
        let leaf = entry.map_err(malformed)?.leaf;
        let found = leaf.index;
        if found != index {
            return Err(EntryError::Index { tile, index, found });
        }
        parts.leaves.push(leaf.leaf_hash(&mut buffer));
        parts.fingerprints.extend(leaf.fingerprints);
        parts.newest = parts.newest.max(leaf.timestamp);
    }
    let bytes = entries.rest().len();
    if bytes > 0 {
        return Err(EntryError::Rest { tile, bytes });
    }
    Ok(parts)
}

/// Compares the leaves of a data tile with the leaf hashes in `tree`, which may continue after the
/// tile.
///
/// # Errors
/// [`EntryError::Hash`].
fn compare(tile: &Tile, entries: &ReadTile, tree: &[Hash]) -> Result<(), EntryError> {
    let differs = entries
        .leaves
        .iter()
        .zip(tree)
        .position(|(leaf, hash)| leaf != hash);
    let missing = (tree.len() < entries.leaves.len()).then_some(tree.len());
    match differs.or(missing) {
        None => Ok(()),
        Some(at) => Err(EntryError::Hash {
            tile: *tile,
            index: tile.start_leaf() + at as u64,
        }),
    }
}

/// Parses a data tile, compares it with the leaf hashes in `tree`, and records the checks. Returns
/// the entries if all checks pass.
pub(crate) fn verify(
    tile: &Tile,
    bytes: &[u8],
    tree: &[Hash],
    sink: &dyn CheckSink,
) -> Option<ReadTile> {
    let outcome = read(tile, bytes);
    let compared = outcome.and_then(|entries| {
        sink.passed(checks::ENTRY_WELLFORMED);
        sink.passed(checks::ENTRY_INDEX);
        compare(tile, &entries, tree).map(|()| entries)
    });
    match compared {
        Ok(entries) => {
            sink.passed(checks::ENTRY_HASH);
            Some(entries)
        }
        Err(error) => {
            sink.failed(error.into());
            None
        }
    }
}

/// Compares the data that the tree hash does not cover with the submissions. The tile is verified,
/// and `extra_data` has the entries that this load test submitted.
pub(crate) fn compare_submitted(
    tile: &Tile,
    bytes: &[u8],
    extra_data: &BTreeMap<u64, ExtraData>,
    sink: &dyn CheckSink,
) {
    let tile = *tile;
    let entries = TileEntries::first(bytes, tile.start_leaf(), tile.width().into());
    for TileEntry { index, leaf, .. } in entries.flatten() {
        let Some(extra_data) = extra_data.get(&index) else {
            continue;
        };
        let found = leaf.precertificate.map(Fingerprint::of);
        let outcome = if found == extra_data.precertificate {
            Ok(())
        } else {
            Err(EntryError::Precertificate { tile, index })
        };
        sink.check(checks::ENTRY_PRECERTIFICATE, outcome);
        let chain: Vec<Fingerprint> = leaf.fingerprints.into_iter().collect();
        let outcome = extra_data.issuers.compare(&chain);
        let outcome = outcome.map_err(|source| EntryError::Chain {
            tile,
            index,
            source,
        });
        sink.check(checks::ENTRY_CHAIN, outcome);
    }
}

/// Finds a promised entry in a data tile. Returns its index and its timestamp there.
pub(crate) fn find(sct: &PendingSct, tile: &Tile, bytes: &[u8]) -> Option<(u64, u64)> {
    let mut buffer = Vec::with_capacity(4096);
    let entries = TileEntries::first(bytes, tile.start_leaf(), tile.width().into());
    for TileEntry { index, leaf, .. } in entries.flatten() {
        buffer.clear();
        // The hash equals the promised leaf if this is the submitted certificate.
        merkle_tree_leaf(sct.timestamp, leaf.signed, sct.index, &mut buffer);
        if leaf_hash(&buffer) == sct.leaf {
            return Some((index, leaf.timestamp));
        }
    }
    None
}
