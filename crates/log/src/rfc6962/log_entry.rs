//! Entries as `get-entries` has them (RFC 6962 section 4.6), put together again from a data tile and the
//! issuers that it refers to.

use std::collections::HashMap;

use bytes::Bytes;
use lucarne_ct::{Fingerprint, TileLeafRef, extra_data};
use lucarne_tlog::{Level, TILE_WIDTH, Tile};
use tokio::task::spawn_blocking;

use crate::ReadError;
use crate::read_cache::FileId;
use crate::reader::Reader;

/// An entry of a log: the fields of RFC 6962 section 4.6, before base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The MerkleTreeLeaf, which the tree hashes.
    pub leaf_input: Vec<u8>,
    /// The chain, and of a precertificate itself before it.
    pub extra_data: Vec<u8>,
}

/// Entries, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntries {
    /// The entries, at least one.
    pub entries: Vec<LogEntry>,
    /// True if the same request will get the same entries for ever; false where there are less only because the
    /// tree has no more yet.
    pub is_final: bool,
}

/// Entries from `start` to `end` inclusive of the tree with `size` entries, `start` among them: to the end of
/// their data tile at most, and no more than have `most_bytes`, but for the first.
pub(super) async fn log_entries(
    reader: &Reader,
    size: u64,
    start: u64,
    end: u64,
    most_bytes: usize,
) -> Result<LogEntries, ReadError> {
    let beyond = || ReadError::Storage(format!("no data tile of {size} entries holds {start}"));
    let tile = Tile::widest(Level::Data, start / TILE_WIDTH, size).ok_or_else(beyond)?;
    let damaged = |problem: String| ReadError::Damaged {
        path: tile.path(),
        problem,
    };
    let stored = reader.tile(tile).await?.ok_or_else(beyond)?;
    let plain = spawn_blocking(move || stored.unpacked()).await;
    let plain = plain.map_err(|error| ReadError::Storage(error.to_string()))?;
    let plain = plain.map_err(|error| damaged(error.to_string()))?;
    let wanted = end.min(tile.end_leaf() - 1) - start + 1;
    let mut tile_leaves = TileLeaves(&plain);
    let skipped = tile_leaves
        .by_ref()
        .take((start - tile.start_leaf()) as usize);
    for leaf in skipped {
        leaf.map_err(|error| damaged(error.to_string()))?;
    }
    let mut issuers = Issuers {
        reader,
        read: HashMap::new(),
    };
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for leaf in tile_leaves.take(wanted as usize) {
        let leaf = leaf.map_err(|error| damaged(error.to_string()))?;
        let chain = issuers.chain(&leaf).await?;
        let mut leaf_input = Vec::new();
        leaf.merkle_tree_leaf(&mut leaf_input);
        let extra_data = extra_data(leaf.precertificate, &chain);
        let extra_data = extra_data.ok_or_else(|| damaged("a chain beyond 16 MiB".into()))?;
        bytes += leaf_input.len() + extra_data.len();
        if bytes > most_bytes && !entries.is_empty() {
            break;
        }
        entries.push(LogEntry {
            leaf_input,
            extra_data,
        });
    }
    // A tile that is not full will have more of them.
    let is_cut_by_size = start + entries.len() as u64 == size && end >= size;
    Ok(LogEntries {
        entries,
        is_final: !is_cut_by_size,
    })
}

/// The entries of a data tile.
struct TileLeaves<'t>(&'t [u8]);

impl<'t> Iterator for TileLeaves<'t> {
    type Item = Result<TileLeafRef<'t>, lucarne_ct::TileLeafError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| TileLeafRef::read(&mut self.0))
    }
}

/// The issuers of a tile's entries, each read once.
struct Issuers<'r> {
    reader: &'r Reader,
    read: HashMap<Fingerprint, Bytes>,
}

impl Issuers<'_> {
    /// The certificates above an entry's own.
    async fn chain(&mut self, leaf: &TileLeafRef<'_>) -> Result<Vec<Bytes>, ReadError> {
        let mut chain = Vec::with_capacity(leaf.fingerprints.len());
        for fingerprint in leaf.fingerprints {
            chain.push(self.issuer(fingerprint).await?);
        }
        Ok(chain)
    }

    async fn issuer(&mut self, of: Fingerprint) -> Result<Bytes, ReadError> {
        if let Some(der) = self.read.get(&of) {
            return Ok(der.clone());
        }
        let Some(stored) = self.reader.issuer(&of).await? else {
            let problem = "is missing, although an entry refers to it".into();
            let damaged = self.reader.tiles().damaged();
            return Err(damaged.name(FileId::Issuer(of), problem));
        };
        self.read.insert(of, stored.bytes.clone());
        Ok(stored.bytes)
    }
}
