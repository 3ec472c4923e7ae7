//! The files with the entries of a mirrored log: entry bundles (C2SP tlog-tiles, "Log Entries"), or
//! the data tiles of a static CT log.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use lucarne_ctread::{Problem, ReadError, Source, TileContent, gunzip, gunzip_entries, stored_at};
use lucarne_storage::{Asset, AssetKind, Encoding};
use lucarne_tlog::{Hash, Tile, leaf_hash};

use super::upload::entry_ends;

/// The format of the entries of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryFormat {
    /// `tile/entries`: entries of any log, as clients upload them.
    Bundles,
    /// `tile/data`: entries of a static CT log, as the log publishes them.
    StaticCt,
}

/// The uncompressed bytes of a file with entries.
pub(super) struct Entries {
    pub(super) bytes: Bytes,
    pub(super) leaves: Vec<Hash>,
    /// End of each entry.
    pub(super) ends: Vec<usize>,
}

impl EntryFormat {
    /// Returns the path of the file with the entries of a data tile.
    #[must_use]
    pub fn path(self, tile: &Tile) -> String {
        match self {
            Self::Bundles => tile.entries_path().unwrap_or_default(),
            Self::StaticCt => tile.path(),
        }
    }

    /// Returns the compressed file with these entries.
    pub(super) fn file(self, tile: &Tile, entries: &[u8]) -> std::io::Result<Asset> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(entries)?;
        let encoding = Encoding::Gzip;
        let kind = AssetKind::DataTile { encoding };
        Ok(Asset::new(self.path(tile), gzip.finish()?, kind))
    }

    /// Reads the uncompressed entries of a tile.
    ///
    /// # Errors
    /// If the file cannot be read, or has other entries.
    pub async fn entries(self, files: &dyn Source, tile: Tile) -> Result<Bytes, ReadError> {
        Ok(self.read(files, tile).await?.bytes)
    }

    /// Reads the entries of a tile. The full file may replace a missing file of a partial tile.
    pub(super) async fn read(self, files: &dyn Source, tile: Tile) -> Result<Entries, ReadError> {
        let path = match self {
            Self::Bundles => |tile: &Tile| Self::Bundles.path(tile),
            Self::StaticCt => Tile::path,
        };
        let (stored, bytes) = stored_at(files, tile, path).await?;
        let wrong = |problem| ReadError::new(self.path(&tile), problem);
        let unpacked = match self {
            Self::Bundles => gunzip(bytes),
            Self::StaticCt => gunzip_entries(bytes, stored.width()),
        };
        let bytes = unpacked.map_err(|error| wrong(Problem::Gzip(error)))?;
        let mut entries = self.parse(stored, bytes)?;
        let width = usize::from(tile.width());
        entries.bytes.truncate(entries.first(width).len());
        entries.leaves.truncate(width);
        entries.ends.truncate(width);
        Ok(entries)
    }

    /// Parses the uncompressed entries of a tile.
    pub(super) fn parse(self, tile: Tile, bytes: Bytes) -> Result<Entries, ReadError> {
        match self {
            Self::Bundles => {
                let wrong = |problem| ReadError::new(self.path(&tile), problem);
                let found = bytes.len();
                let short = || {
                    wrong(Problem::Length {
                        found,
                        due: found + 1,
                    })
                };
                let ends = entry_ends(&bytes, tile.width().into()).ok_or_else(short)?;
                let leaves = leaf_hashes(&bytes, &ends);
                let rest = found - ends.last().copied().unwrap_or(0);
                (rest == 0)
                    .then_some(())
                    .ok_or_else(|| wrong(Problem::Rest(rest)))?;
                Ok(Entries {
                    bytes,
                    leaves,
                    ends,
                })
            }
            Self::StaticCt => {
                let leaves = TileContent::parse(tile, &bytes)?.leaves;
                let entries = lucarne_ct::TileEntries::all(&bytes, tile.start_leaf());
                let ends = entries
                    .map_while(|entry| Some(entry.ok()?.bytes.end))
                    .collect();
                Ok(Entries {
                    bytes,
                    leaves,
                    ends,
                })
            }
        }
    }
}

/// Returns the leaf hashes of the entries of a bundle.
pub(super) fn leaf_hashes(bundle: &[u8], ends: &[usize]) -> Vec<Hash> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let entries = starts
        .zip(ends)
        .map(|(start, &end)| &bundle[start + 2..end]);
    entries.map(leaf_hash).collect()
}

impl Entries {
    /// Returns the bytes of the entries before the entry with this number.
    pub(super) fn first(&self, count: usize) -> &[u8] {
        match count.checked_sub(1) {
            Some(last) => &self.bytes[..self.ends[last]],
            None => &[],
        }
    }
}
