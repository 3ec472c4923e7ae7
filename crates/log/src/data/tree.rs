//! The tree between two rounds: its right edge, and the tiles that a round adds.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use lucarne_tlog::{EMPTY_ROOT, Frontier, Hash, Level, RightEdge, TILE_WIDTH, Tile};
use serde::{Deserialize, Serialize};

use crate::data::gzip::GrowingGzip;
use crate::data::names_tile::GrowingNames;
use crate::data::stored_file::StoredFile;

/// The rightmost, partial data tile.
#[derive(Clone, Debug, Default)]
pub(crate) struct DataEdge {
    /// Concatenated `TileLeaf` structures, fewer than 256.
    pub(crate) bytes: Bytes,
    /// The end of each structure.
    pub(crate) ends: Vec<u32>,
    /// The tile in gzip, as published by the last round; `None` for a tree from storage.
    pub(crate) packed: Option<StoredFile>,
}

impl DataEdge {
    /// Returns the first `width` entries; `None` if there are fewer.
    pub(crate) fn prefix(&self, width: u16) -> Option<Bytes> {
        let last = usize::from(width).checked_sub(1)?;
        let end = *self.ends.get(last)? as usize;
        Some(self.bytes.slice(..end))
    }
}

/// The size and the root of a tree that the log signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TreeHead {
    pub(crate) size: u64,
    #[serde(with = "HashBytes")]
    pub(crate) root: Hash,
}

/// The stored form of a hash.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Hash")]
struct HashBytes([u8; Hash::LENGTH]);

impl TreeHead {
    pub(crate) const EMPTY: TreeHead = TreeHead {
        size: 0,
        root: EMPTY_ROOT,
    };
}

/// The state that is carried from one round to the next.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// The partial hash tile of each level.
    pub(crate) edge: Arc<RightEdge>,
    /// The same tree, computed by another algorithm for the verification before signing.
    pub(crate) frontier: Frontier,
    /// The partial data tile.
    pub(crate) data: DataEdge,
    /// The newest data tile, compressed so far.
    pub(crate) gzip: GrowingGzip,
    /// The newest names tile, generated so far.
    pub(crate) names: GrowingNames,
    /// Root hash.
    pub(crate) root: Hash,
    /// Timestamp of the last signed checkpoint, Unix milliseconds.
    pub(crate) timestamp_ms: u64,
}

/// The tiles that a round writes.
#[derive(Debug, Default)]
pub(crate) struct NewTiles {
    /// Completed hash tiles, and the new partial tile of each level that changed.
    pub(crate) hashes: Vec<(Tile, Bytes)>,
    /// Completed data tiles, and the new partial tile, uncompressed.
    pub(crate) data: Vec<(Tile, Bytes)>,
}

impl Tree {
    pub(crate) fn empty() -> Self {
        Tree {
            edge: Arc::default(),
            frontier: Frontier::new(),
            data: DataEdge::default(),
            gzip: GrowingGzip::default(),
            names: GrowingNames::default(),
            root: EMPTY_ROOT,
            timestamp_ms: 0,
        }
    }

    /// Creates a tree from its edges in storage.
    pub(crate) fn from_edges(edge: RightEdge, data: DataEdge) -> Self {
        Tree {
            frontier: Frontier::from_right_edge(&edge),
            root: edge.root(),
            edge: Arc::new(edge),
            data,
            gzip: GrowingGzip::default(),
            names: GrowingNames::default(),
            timestamp_ms: 0,
        }
    }

    /// Returns the size and the root.
    pub(crate) fn head(&self) -> TreeHead {
        TreeHead {
            size: self.size(),
            root: self.root,
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.edge.size()
    }

    /// Appends leaves by their hashes, and returns the hash tiles to write. The frontier stays
    /// unchanged until the result has been verified. The caller must append the data as well.
    pub(crate) fn append_leaves(&mut self, leaves: &[Hash]) -> Vec<(Tile, Bytes)> {
        let tiles = Arc::make_mut(&mut self.edge).append(leaves);
        self.root = self.edge.root();
        tiles
            .into_iter()
            .map(|(tile, bytes)| (tile, Bytes::from(bytes)))
            .collect()
    }

    /// Appends the entries of these leaves, and returns the data tiles to write. The first entry
    /// has the index `first`; `ends` are the ends of the entries in `entries`.
    pub(crate) fn append_data(
        &mut self,
        first: u64,
        entries: &Bytes,
        ends: &[u32],
    ) -> Vec<(Tile, Bytes)> {
        let mut tiles = Vec::new();
        let mut index = first / TILE_WIDTH;
        let mut start = 0;
        let mut ends = ends;
        while !ends.is_empty() {
            let room = TILE_WIDTH as usize - self.data.ends.len();
            let (here, rest) = ends.split_at(room.min(ends.len()));
            let end = here.last().copied().unwrap_or(start);
            self.data
                .push(entries.slice(start as usize..end as usize), here, start);
            let width = self.data.ends.len() as u16;
            if let Some(tile) = Tile::new(Level::Data, index, width) {
                tiles.push((tile, self.data.bytes.clone()));
            }
            if u64::from(width) == TILE_WIDTH {
                self.data = DataEdge::default();
                index += 1;
            }
            (start, ends) = (end, rest);
        }
        self.data.own();
        tiles
    }
}

impl DataEdge {
    /// Appends entries whose `ends` are relative to the same buffer as `start`.
    fn push(&mut self, entries: Bytes, ends: &[u32], start: u32) {
        let offset = self.bytes.len() as u32;
        self.packed = None;
        self.ends
            .extend(ends.iter().map(|end| end - start + offset));
        if self.bytes.is_empty() {
            self.bytes = entries;
        } else {
            let mut joined = BytesMut::with_capacity(self.bytes.len() + entries.len());
            joined.extend_from_slice(&self.bytes);
            joined.extend_from_slice(&entries);
            self.bytes = joined.freeze();
        }
    }

    /// Copies the bytes, which may be a small slice of the round's buffer, to free that buffer.
    fn own(&mut self) {
        self.bytes = Bytes::copy_from_slice(&self.bytes);
    }
}
