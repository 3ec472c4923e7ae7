//! Entries of a data tile, and their comparison with the tree.

use std::collections::BTreeMap;

use lucarne_ct::{Fingerprint, TileEntries, TileEntry, merkle_tree_leaf};
use lucarne_ctread::TileContent;
use lucarne_tlog::{Hash, Tile, leaf_hash};

use super::checks::{self, CheckSink};
use super::extra_data::{ChainMismatch, ExtraData};
use super::pending_scts::PendingSct;

/// The reasons why a data tile does not have the entries of the submissions.
#[derive(Debug, thiserror::Error)]
enum EntryError {
    #[error("{tile}: entry {index} has another precertificate than the submitted one")]
    Precertificate { tile: Tile, index: u64 },
    #[error("{tile}: entry {index}: {source}")]
    Chain {
        tile: Tile,
        index: u64,
        source: ChainMismatch,
    },
}

/// Parses a data tile, compares it with the leaf hashes in `tree`, and records the checks. Returns
/// the entries if all checks pass.
pub(crate) fn verify(
    tile: Tile,
    bytes: &[u8],
    tree: &[Hash],
    sink: &dyn CheckSink,
) -> Option<TileContent> {
    let compared = TileContent::parse(tile, bytes).and_then(|entries| {
        sink.passed(checks::ENTRY_WELLFORMED);
        sink.passed(checks::ENTRY_INDEX);
        entries.compare(tile, tree).map(|()| entries)
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
    tile: Tile,
    bytes: &[u8],
    extra_data: &BTreeMap<u64, ExtraData>,
    sink: &dyn CheckSink,
) {
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
pub(crate) fn find(sct: &PendingSct, tile: Tile, bytes: &[u8]) -> Option<(u64, u64)> {
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
