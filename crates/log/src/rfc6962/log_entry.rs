//! Entries in the form of `get-entries` (RFC 6962 section 4.6), assembled from a data tile and the
//! issuers that the tile refers to.

use std::collections::HashMap;

use bytes::Bytes;
use lucarne_ct::{Fingerprint, TileEntries, TileEntry, TileLeafRef, extra_data};
use lucarne_tlog::{Level, TILE_WIDTH, Tile};
use tokio::task::spawn_blocking;

use crate::error::{ReadError, ReadFailure};
use crate::read::read_cache::FileId;
use crate::read::reader::Reader;

/// An entry of a log: the fields of RFC 6962 section 4.6, before base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The `MerkleTreeLeaf`, whose hash is in the tree.
    pub leaf_input: Vec<u8>,
    /// The chain; for a precertificate entry, the precertificate comes first.
    pub extra_data: Vec<u8>,
}

/// Consecutive entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntries {
    /// The entries, at least one.
    pub entries: Vec<LogEntry>,
    /// `true` if the same request will always return the same entries; `false` if the published
    /// tree cut the range short.
    pub is_final: bool,
}

/// Returns entries from `start` to `end` inclusive, of the tree with `size` entries. `start` must
/// be in the tree. The result ends at the end of the data tile, or before `most_bytes` are
/// exceeded, but has at least one entry.
pub(super) async fn log_entries(
    reader: &Reader,
    size: u64,
    start: u64,
    end: u64,
    most_bytes: usize,
) -> Result<LogEntries, ReadError> {
    let beyond = || ReadFailure::NoDataTile { size, start };
    let tile = Tile::widest(Level::Data, start / TILE_WIDTH, size).ok_or_else(beyond)?;
    let damaged = |problem: String| ReadError::Damaged {
        path: tile.path(),
        problem,
    };
    let stored = reader.tile(tile).await?.ok_or_else(beyond)?;
    let plain = spawn_blocking(move || stored.unpacked()).await?;
    let plain = plain.map_err(|error| damaged(error.to_string()))?;
    let wanted = end.min(tile.end_leaf() - 1) - start + 1;
    let mut issuers = Issuers {
        reader,
        read: HashMap::new(),
    };
    let (mut entries, mut bytes) = (Vec::new(), 0);
    let read = (start - tile.start_leaf() + wanted) as usize;
    for entry in TileEntries::all(&plain, tile.start_leaf()).take(read) {
        let TileEntry { index, leaf, .. } = entry.map_err(|error| damaged(error.to_string()))?;
        if index < start {
            continue;
        }
        let chain = issuers.chain(&leaf).await?;
        let mut leaf_input = Vec::new();
        leaf.merkle_tree_leaf(&mut leaf_input);
        let extra_data = extra_data(leaf.precertificate, &chain);
        let extra_data =
            extra_data.ok_or_else(|| damaged("a chain is longer than 16 MiB".into()))?;
        bytes += leaf_input.len() + extra_data.len();
        if bytes > most_bytes && !entries.is_empty() {
            break;
        }
        entries.push(LogEntry {
            leaf_input,
            extra_data,
        });
    }
    // A later tree may have more entries of the requested range.
    let is_cut_by_size = start + entries.len() as u64 == size && end >= size;
    Ok(LogEntries {
        entries,
        is_final: !is_cut_by_size,
    })
}

/// The issuers of a tile's entries. Each issuer is read once.
struct Issuers<'r> {
    reader: &'r Reader,
    read: HashMap<Fingerprint, Bytes>,
}

impl Issuers<'_> {
    /// Returns the certificates above the certificate of the entry.
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
            let problem = "is missing, although an entry refers to this issuer".into();
            let damaged = self.reader.tiles().damaged();
            return Err(damaged.name(FileId::Issuer(of), problem));
        };
        self.read.insert(of, stored.bytes.clone());
        Ok(stored.bytes)
    }
}
