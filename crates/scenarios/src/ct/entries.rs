//! Entries of a data tile, and their comparison with the tree.

use std::collections::{BTreeMap, BTreeSet};

use lucarne_ct::{Fingerprint, SignedEntryRef, TileLeafRef, merkle_tree_leaf};
use lucarne_tlog::{Hash, Tile, leaf_hash};

use super::checks::{self, CheckSink, Finding};
use super::extra_data::ExtraData;
use super::pending_scts::PendingSct;

/// Entries of a data tile.
#[derive(Debug, Default)]
pub(crate) struct TileEntries {
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
/// `entry_wellformed`, `entry_index`.
pub(crate) fn read(tile: &Tile, mut bytes: &[u8]) -> Result<TileEntries, Finding> {
    let mut entries = TileEntries::default();
    let mut leaf = Vec::with_capacity(4096);
    for index in tile.start_leaf()..tile.end_leaf() {
        let entry = TileLeafRef::read(&mut bytes).map_err(|error| {
            let detail = format!("{tile}: entry {index}: {error}");
            Finding::new(checks::ENTRY_WELLFORMED, detail)
        })?;
        if entry.index != index {
            let detail = format!("{tile}: entry {index} contains the index {}", entry.index);
            return Err(Finding::new(checks::ENTRY_INDEX, detail));
        }
        leaf.clear();
        entry.merkle_tree_leaf(&mut leaf);
        entries.leaves.push(leaf_hash(&leaf));
        entries.fingerprints.extend(entry.fingerprints);
        entries.newest = entries.newest.max(entry.timestamp);
    }
    if !bytes.is_empty() {
        let detail = format!("{tile}: {} bytes after the last entry", bytes.len());
        return Err(Finding::new(checks::ENTRY_WELLFORMED, detail));
    }
    Ok(entries)
}

/// Compares a data tile's leaves with the tree's, which may have more.
///
/// # Errors
/// `entry_hash`.
pub(crate) fn compare(tile: &Tile, entries: &TileEntries, tree: &[Hash]) -> Result<(), Finding> {
    let differs = entries
        .leaves
        .iter()
        .zip(tree)
        .position(|(leaf, hash)| leaf != hash);
    let missing = (tree.len() < entries.leaves.len()).then_some(tree.len());
    match differs.or(missing) {
        None => Ok(()),
        Some(at) => {
            let index = tile.start_leaf() + at as u64;
            let detail = format!("{tile}: entry {index} does not hash to the tree's leaf");
            Err(Finding::new(checks::ENTRY_HASH, detail))
        }
    }
}

/// Parses, compares and records. Returns the entries if all checks pass.
pub(crate) fn verify(
    tile: &Tile,
    bytes: &[u8],
    tree: &[Hash],
    sink: &dyn CheckSink,
) -> Option<TileEntries> {
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
        Err(finding) => {
            sink.failed(finding);
            None
        }
    }
}

/// Compares the data that the tree hash does not cover with the submissions, for entries of a
/// verified tile that this load test submitted.
pub(crate) fn compare_submitted(
    tile: &Tile,
    mut bytes: &[u8],
    extra_data: &BTreeMap<u64, ExtraData>,
    sink: &dyn CheckSink,
) {
    for index in tile.start_leaf()..tile.end_leaf() {
        let Ok(entry) = TileLeafRef::read(&mut bytes) else {
            return;
        };
        let Some(extra_data) = extra_data.get(&index) else {
            continue;
        };
        let found = entry.precertificate.map(Fingerprint::of);
        let outcome = if found == extra_data.precertificate {
            Ok(())
        } else {
            Err(format!(
                "{tile}: entry {index} has another precertificate than the submitted one"
            ))
        };
        sink.check(checks::ENTRY_PRECERTIFICATE, outcome);
        let chain: Vec<Fingerprint> = entry.fingerprints.into_iter().collect();
        let outcome = extra_data.issuers.compare(&chain);
        let outcome = outcome.map_err(|problem| format!("{tile}: entry {index}: {problem}"));
        sink.check(checks::ENTRY_CHAIN, outcome);
    }
}

/// Finds a promised entry in a data tile. Returns its index and its timestamp there.
pub(crate) fn find(sct: &PendingSct, tile: &Tile, mut bytes: &[u8]) -> Option<(u64, u64)> {
    let mut leaf = Vec::with_capacity(4096);
    for place in tile.start_leaf()..tile.end_leaf() {
        let entry = TileLeafRef::read(&mut bytes).ok()?;
        let signed: SignedEntryRef<'_> = entry.signed;
        leaf.clear();
        // The hash equals the promised leaf if this is the submitted certificate.
        merkle_tree_leaf(sct.timestamp, signed, sct.index, &mut leaf);
        if leaf_hash(&leaf) == sct.leaf {
            return Some((place, entry.timestamp));
        }
    }
    None
}
