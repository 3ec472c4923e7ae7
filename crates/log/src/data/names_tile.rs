//! Names tiles: for each data tile, the names of its entries as lines of JSON, in gzip
//! (<https://github.com/FiloSottile/sunlight/blob/main/names-tiles.md>).
//!
//! Names tiles are not signed, and depend only on the entries. The log therefore creates its
//! responses from verified entries. The stored files are for clients that read the log's directory
//! or bucket.

use std::io;

use bytes::{Bytes, BytesMut};
use lucarne_ct::{TileEntries, TileLeafError, TrimmedEntry};

use crate::data::gzip::{GrowingGzip, gzip};

/// Returns the lines for these entries of a data tile.
///
/// # Errors
/// If an entry is invalid.
pub(crate) fn lines(entries: &[u8]) -> Result<Bytes, TileLeafError> {
    let mut out = Vec::with_capacity(entries.len() / 12);
    for entry in TileEntries::all(entries, 0) {
        TrimmedEntry::of(&entry?.leaf).write_line(&mut out);
    }
    Ok(out.into())
}

/// Returns the stored form of the names tile for these entries of a data tile.
///
/// # Errors
/// If an entry is invalid, or the compressed bytes do not decompress to the lines.
pub(crate) fn names_tile(entries: &[u8]) -> io::Result<Bytes> {
    gzip(&lines(entries).map_err(io::Error::other)?)
}

/// The newest names tile, to which each round adds only the lines of its own entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrowingNames {
    /// The index of the tile.
    tile: u64,
    /// Number of bytes of the data tile whose entries already have lines.
    read: usize,
    lines: Bytes,
    gzip: GrowingGzip,
}

impl GrowingNames {
    /// Creates the names tile with this index from all its entries. The result equals the result of
    /// [`names_tile`].
    ///
    /// # Errors
    /// See [`names_tile`]. Also if the state of the last round has changed in memory.
    pub(crate) fn grow(&mut self, tile: u64, entries: &[u8]) -> io::Result<Bytes> {
        if self.tile != tile || entries.len() < self.read {
            *self = Self {
                tile,
                ..Self::default()
            };
        }
        let new = lines(&entries[self.read..]).map_err(io::Error::other)?;
        let mut all = BytesMut::with_capacity(self.lines.len() + new.len());
        all.extend_from_slice(&self.lines);
        all.extend_from_slice(&new);
        self.lines = all.freeze();
        self.read = entries.len();
        self.gzip.grow(tile, &self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::verified_tiles::tests::entry;
    use lucarne_ctread::gunzip;

    #[test]
    fn grows_to_what_is_made_at_once() {
        let entries: Vec<u8> = (0..256).flat_map(entry).collect();
        let one = entry(0).len();
        let mut growing = GrowingNames::default();
        for width in [1, 2, 100, 256] {
            let part = &entries[..width * one];
            let grown = growing.grow(5, part).unwrap();
            assert_eq!(grown, names_tile(part).unwrap());
            let plain = gunzip(grown).unwrap();
            assert_eq!(plain.iter().filter(|byte| **byte == b'\n').count(), width);
        }
        // Another tile starts from empty.
        let next = growing.grow(6, &entries[..one]).unwrap();
        assert_eq!(next, names_tile(&entries[..one]).unwrap());
        assert!(growing.grow(6, b"none").is_err());
    }
}
