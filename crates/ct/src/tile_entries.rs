//! The entries of a data tile (static-ct-api, "Log Entries"), one after the other.

use std::ops::Range;

use crate::leaf::{TileLeafError, TileLeafRef};

/// An entry of a data tile.
#[derive(Debug, Clone)]
pub struct TileEntry<'t> {
    /// Index in the tree, by the position in the tile. `leaf.index` is the index that the entry
    /// contains.
    pub index: u64,
    /// Place of the entry in the bytes of the tile.
    pub bytes: Range<usize>,
    /// The parsed entry.
    pub leaf: TileLeafRef<'t>,
}

/// Iterates over the entries of a data tile. The first invalid entry is the last item: the entries
/// after it cannot be found.
#[derive(Debug, Clone)]
pub struct TileEntries<'t> {
    tile: &'t [u8],
    read: usize,
    next: u64,
    /// Index after the last entry; `None` if the tile ends with its bytes.
    end: Option<u64>,
    /// Whether entries may lack their index.
    archived: bool,
}

impl<'t> TileEntries<'t> {
    /// Reads entries up to the end of the bytes. The first entry has the index `first`.
    pub fn all(tile: &'t [u8], first: u64) -> Self {
        Self {
            tile,
            read: 0,
            next: first,
            end: None,
            archived: false,
        }
    }

    /// Reads `count` entries. If the bytes end earlier, the last item is an error.
    pub fn first(tile: &'t [u8], first: u64, count: u64) -> Self {
        let end = Some(first + count);
        Self {
            end,
            ..Self::all(tile, first)
        }
    }

    /// Accepts entries without extensions, which archived RFC 6962 logs have.
    #[must_use]
    pub fn archived(self, archived: bool) -> Self {
        Self { archived, ..self }
    }

    /// Returns the number of bytes of the entries that were read.
    pub fn read(&self) -> usize {
        self.read
    }

    /// Returns the bytes after the entries that were read.
    pub fn rest(&self) -> &'t [u8] {
        &self.tile[self.read..]
    }
}

impl<'t> Iterator for TileEntries<'t> {
    type Item = Result<TileEntry<'t>, TileLeafError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (index, start) = (self.next, self.read);
        let is_end = self
            .end
            .map_or(start == self.tile.len(), |end| index == end);
        if is_end {
            return None;
        }
        let mut rest = self.rest();
        let read = if self.archived {
            TileLeafRef::read_archived(&mut rest, index)
        } else {
            TileLeafRef::read(&mut rest)
        };
        let leaf = match read {
            Ok(leaf) => leaf,
            Err(error) => {
                self.end = Some(index);
                return Some(Err(error));
            }
        };
        self.read = self.tile.len() - rest.len();
        self.next += 1;
        Some(Ok(TileEntry {
            index,
            bytes: start..self.read,
            leaf,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaf::SignedEntryRef;

    fn tile(count: u8) -> Vec<u8> {
        let mut tile = Vec::new();
        for n in 0..count {
            let leaf = TileLeafRef {
                timestamp: 7,
                signed: SignedEntryRef::X509 { certificate: &[n] },
                extensions: &[0, 0, 5, 0, 0, 0, 0, n],
                precertificate: None,
                index: n.into(),
                fingerprints: Default::default(),
            };
            leaf.encode(&mut tile);
        }
        tile
    }

    #[test]
    fn entries_have_their_index_and_bytes() {
        let tile = tile(3);
        let mut entries = TileEntries::all(&tile, 256);
        let read: Vec<_> = entries.by_ref().collect::<Result<_, _>>().unwrap();
        let indexes: Vec<_> = read.iter().map(|entry| entry.index).collect();
        assert_eq!(indexes, [256, 257, 258]);
        assert_eq!(entries.rest(), b"");
        let joined: Vec<u8> = read
            .iter()
            .flat_map(|entry| &tile[entry.bytes.clone()])
            .copied()
            .collect();
        assert_eq!(joined, tile);
    }

    #[test]
    fn only_archived_entries_may_lack_their_index() {
        let mut tile = tile(1);
        let leaf = TileLeafRef::read(&mut &tile[..]).unwrap();
        let bare = TileLeafRef {
            extensions: &[],
            ..leaf
        };
        let other = TileLeafRef {
            extensions: &[7],
            ..bare
        };
        let (mut encoded, mut unknown) = (Vec::new(), Vec::new());
        bare.encode(&mut encoded);
        other.encode(&mut unknown);
        tile.extend(encoded);
        let indexes = |tile: &[u8], archived| -> Result<Vec<u64>, TileLeafError> {
            let entries = TileEntries::all(tile, 256).archived(archived);
            entries.map(|entry| Ok(entry?.leaf.index)).collect()
        };
        assert_eq!(indexes(&tile, true), Ok(vec![0, 257]));
        assert_eq!(indexes(&tile, false), Err(TileLeafError::NoLeafIndex));
        assert_eq!(indexes(&unknown, true), Err(TileLeafError::NoLeafIndex));
    }

    #[test]
    fn missing_and_invalid_entries_are_the_last_item() {
        let tile = tile(2);
        let counts = |entries: TileEntries<'_>| {
            let all: Vec<_> = entries.collect();
            (all.len(), all.iter().filter(|entry| entry.is_err()).count())
        };
        assert_eq!(counts(TileEntries::first(&tile, 0, 1)), (1, 0));
        assert_eq!(counts(TileEntries::first(&tile, 0, 3)), (3, 1));
        let cut = &tile[..tile.len() - 1];
        assert_eq!(counts(TileEntries::all(cut, 0)), (2, 1));
        let mut entries = TileEntries::all(cut, 0);
        entries.by_ref().for_each(drop);
        assert_eq!(entries.rest(), &cut[entries.read()..]);
        assert_eq!(entries.read(), tile.len() / 2);
    }
}
