//! A round before it joins the tree: encoded, but not verified yet.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::{Entry, Fingerprint, Issuer, TileLeaf, merkle_tree_leaf};
use lucarne_storage::{Asset, AssetKind, Encoding};
use lucarne_tlog::{Hash, leaf_hash};

use crate::data::record::{RecordWriter, Step};
use crate::data::stored_file::StoredFile;
use crate::data::tree::{NewTiles, Tree};
use crate::error::{Fatal, VerifyError};

/// An encoded round. Only [`Verified`](crate::data::verify::Verified) rounds are published.
pub(crate) struct Round {
    pub(crate) step: Step,
    /// The journal's record.
    pub(crate) record: Bytes,
    /// The tiles to be published, uncompressed.
    pub(crate) tiles: NewTiles,
    /// The issuers that this round adds to storage.
    pub(crate) issuers: Vec<Arc<Issuer>>,
    /// The hashes of the round's leaves.
    pub(crate) leaves: Vec<Hash>,
    /// The tree after the round, except its frontier, which is still the frontier before the round.
    pub(crate) tree: Tree,
}

impl Round {
    /// Encodes the entries to append to `tree`. `issuers` are the issuers that are not stored yet.
    pub(crate) fn encode(
        tree: &Tree,
        entries: &[Arc<Entry>],
        issuers: Vec<Arc<Issuer>>,
        timestamp_ms: u64,
    ) -> Round {
        let encoded = Encoded::of(entries, tree.size(), timestamp_ms, &issuers);
        let mut grown = tree.clone();
        grown.timestamp_ms = timestamp_ms;
        let hashes = grown.append_leaves(&encoded.leaves);
        let step = Step {
            old_size: tree.size(),
            new_size: grown.size(),
            timestamp_ms,
            old_root: tree.root,
            new_root: grown.root,
        };
        let (record, bytes) = encoded
            .writer
            .finish(&step, issuers.iter().map(|issuer| issuer.der.as_ref()));
        let data = grown.append_data(step.old_size, &bytes, &encoded.ends);
        Round {
            step,
            record,
            tiles: NewTiles { hashes, data },
            issuers,
            leaves: encoded.leaves,
            tree: grown,
        }
    }
}

/// Entries in the format of the journal and the data tiles.
struct Encoded {
    writer: RecordWriter,
    ends: Vec<u32>,
    leaves: Vec<Hash>,
}

impl Encoded {
    fn of(
        entries: &[Arc<Entry>],
        first_index: u64,
        timestamp_ms: u64,
        issuers: &[Arc<Issuer>],
    ) -> Self {
        let issuer_bytes: usize = issuers.iter().map(|issuer| issuer.der.len() + 4).sum();
        let mut encoded = Encoded {
            writer: RecordWriter::with_capacity(entries.len() * 2048 + issuer_bytes),
            ends: Vec::with_capacity(entries.len()),
            leaves: Vec::with_capacity(entries.len()),
        };
        let mut leaf = Vec::with_capacity(4096);
        for (index, entry) in (first_index..).zip(entries) {
            TileLeaf::encode(timestamp_ms, entry, index, encoded.writer.entries());
            encoded.ends.push(encoded.writer.entries_len() as u32);
            leaf.clear();
            merkle_tree_leaf(timestamp_ms, &entry.signed, index, &mut leaf);
            encoded.leaves.push(leaf_hash(&leaf));
        }
        encoded
    }
}

/// Returns the issuers of these entries that are not in `known`.
pub(crate) fn new_issuers(
    entries: &[Arc<Entry>],
    known: &HashSet<Fingerprint>,
) -> Vec<Arc<Issuer>> {
    let mut new = HashSet::new();
    let mut last: Option<&Arc<[Arc<Issuer>]>> = None;
    let mut issuers = Vec::new();
    for entry in entries {
        // Entries of the same CA share one verified chain.
        if last.is_some_and(|last| Arc::ptr_eq(last, &entry.issuers)) {
            continue;
        }
        last = Some(&entry.issuers);
        for issuer in entry.issuers.iter() {
            if !known.contains(&issuer.fingerprint) && new.insert(issuer.fingerprint) {
                issuers.push(issuer.clone());
            }
        }
    }
    issuers
}

/// Returns the tiles as published files. Data tiles are compressed. The compressed bytes are
/// decompressed and compared, because other parties verify the log with these bytes. Each data tile
/// has its names tile. `tree` keeps the compressed partial data tile, which readers request next.
///
/// # Errors
/// If the decompressed bytes differ from the input.
pub(crate) fn tile_assets(tiles: NewTiles, tree: &mut Tree) -> Result<Vec<Asset>, Fatal> {
    let mut assets = Vec::with_capacity(tiles.hashes.len() + 2 * tiles.data.len());
    for (tile, plain) in tiles.data {
        let packed = tree.gzip.grow(tile.index(), &plain);
        let packed = packed.map_err(|error| compression(tile.path(), error))?;
        if let Some(path) = tile.names_path() {
            let names = tree.names.grow(tile.index(), &plain);
            let names = names.map_err(|error| compression(path.clone(), error))?;
            assets.push(Asset::new(path, names, AssetKind::NamesTile));
        }
        if !tile.is_full() {
            tree.data.packed = Some(StoredFile::new(packed.clone(), Encoding::Gzip));
        }
        let encoding = Encoding::Gzip;
        let kind = AssetKind::DataTile { encoding };
        assets.push(Asset::new(tile.path(), packed, kind));
    }
    for (tile, bytes) in tiles.hashes {
        assets.push(Asset::new(tile.path(), bytes, AssetKind::HashTile));
    }
    Ok(assets)
}

fn compression(path: String, error: std::io::Error) -> Fatal {
    Fatal::Verify(VerifyError::Compression { path, error })
}

/// Returns the published file of an issuer.
pub(crate) fn issuer_asset(fingerprint: &Fingerprint, der: &Bytes) -> Asset {
    Asset::new(
        format!("issuer/{fingerprint}"),
        der.clone(),
        AssetKind::Issuer,
    )
}
