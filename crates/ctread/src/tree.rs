//! The verified part of a log's tree: the right edge, and full tiles that were needed before. Any
//! other tile can be verified with this part.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile, tile_root};
use parking_lot::Mutex;

use crate::{Problem, ReadError, Source, tile};

/// Number of full tiles that are kept: 8 KiB each.
const KEPT: usize = 1024;

/// Hashes of one tile.
pub type TileHashes = Arc<[Hash]>;

/// The verified part of a tree, for any number of concurrent readers.
#[derive(Debug)]
pub struct VerifiedTree {
    edge: Mutex<Arc<RightEdge>>,
    kept: Mutex<HashMap<(u8, u64), TileHashes>>,
}

impl Default for VerifiedTree {
    fn default() -> Self {
        Self {
            edge: Mutex::new(Arc::new(RightEdge::new())),
            kept: Mutex::default(),
        }
    }
}

impl VerifiedTree {
    /// Returns the right edge of the verified tree.
    #[must_use]
    pub fn edge(&self) -> Arc<RightEdge> {
        Arc::clone(&self.edge.lock())
    }

    /// Sets the right edge. Its tree must extend the verified tree.
    pub fn advance(&self, edge: RightEdge) {
        *self.edge.lock() = Arc::new(edge);
    }

    /// Sets the right edge of a tree that extends the verified tree by these leaves, and keeps its
    /// new full tiles.
    pub fn extend(&self, grown: RightEdge, leaves: &[Hash]) {
        let old = self.edge();
        let leaves = [old.partial(0), leaves].concat();
        let (full, _) = leaves.as_chunks::<{ TILE_WIDTH as usize }>();
        for (index, hashes) in (old.size() / TILE_WIDTH..).zip(full) {
            self.keep((0, index), Arc::from(*hashes));
        }
        self.advance(grown);
    }

    /// Returns the verified hashes of the tile at `index` of `level`, in its width in the verified
    /// tree. A full tile is read, if it is not kept, and its hash is compared with the tile above.
    ///
    /// # Errors
    /// If a tile is unavailable, does not lead to the root, or is not in the verified tree.
    pub async fn hashes(
        &self,
        source: &dyn Source,
        level: u8,
        index: u64,
    ) -> Result<TileHashes, ReadError> {
        let edge = self.edge();
        if let Some(hashes) = self.at_hand(&edge, level, index) {
            return Ok(hashes);
        }
        // Goes up to a verified tile, then down again, and verifies each tile with its parent.
        let mut missing = vec![full(level, index)?];
        let mut above = loop {
            let lowest = missing[missing.len() - 1];
            let (level, index) = (height(lowest) + 1, lowest.index() / TILE_WIDTH);
            match self.at_hand(&edge, level, index) {
                Some(hashes) => break hashes,
                None => missing.push(full(level, index)?),
            }
        };
        while let Some(tile) = missing.pop() {
            let bytes = tile::tile(source, tile).await?;
            let expected = above.get((tile.index() % TILE_WIDTH) as usize).copied();
            if expected.is_none() || tile_root(&bytes) != expected {
                return Err(ReadError::of(tile, Problem::Hashes));
            }
            above = tile::hashes(&bytes).into();
            self.keep((height(tile), tile.index()), Arc::clone(&above));
        }
        Ok(above)
    }

    /// Returns the root of the tree when it had `size` leaves, from verified tiles.
    ///
    /// # Errors
    /// See [`hashes`](Self::hashes).
    pub async fn root_at(&self, source: &dyn Source, size: u64) -> Result<Hash, ReadError> {
        let mut tiles = Vec::new();
        for tile in RightEdge::tiles(size) {
            let hashes = self.hashes(source, height(tile), tile.index()).await?;
            let width = usize::from(tile.width()).min(hashes.len());
            tiles.push((
                tile,
                hashes[..width].iter().flat_map(|hash| hash.0).collect(),
            ));
        }
        edge_of(size, &tiles).map(|edge| edge.root())
    }

    /// Stores a full tile with verified hashes.
    fn keep(&self, place: (u8, u64), hashes: TileHashes) {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT {
            // Any tile can be dropped: a tile is fetched again when needed.
            let victim = kept.keys().next().copied();
            victim.map(|victim| kept.remove(&victim));
        }
        kept.insert(place, hashes);
    }

    fn at_hand(&self, edge: &RightEdge, level: u8, index: u64) -> Option<TileHashes> {
        match Tile::rightmost_partial(Level::Hashes(level), edge.size()) {
            Some(tile) if tile.index() == index => Some(edge.partial(level).into()),
            _ => self.kept.lock().get(&(level, index)).cloned(),
        }
    }
}

/// Reads the right edge of a tree from its tiles. The caller must compare its root with a signed
/// root.
///
/// # Errors
/// If a tile cannot be read, or the tree is too large.
pub async fn load_edge(source: &dyn Source, size: u64) -> Result<RightEdge, ReadError> {
    let mut tiles = Vec::new();
    for tile in RightEdge::tiles(size) {
        tiles.push((tile, tile::tile(source, tile).await?));
    }
    edge_of(size, &tiles)
}

fn edge_of(size: u64, tiles: &[(Tile, Bytes)]) -> Result<RightEdge, ReadError> {
    RightEdge::load(size, |tile| {
        let found = tiles.iter().find(|(found, _)| *found == tile);
        Ok(found.map(|(_, bytes)| bytes.to_vec()).unwrap_or_default())
    })
    .map_err(|error| ReadError::new("checkpoint", Problem::Size(error)))
}

fn height(tile: Tile) -> u8 {
    match tile.level() {
        Level::Hashes(level) => level,
        Level::Data => 0,
    }
}

fn full(level: u8, index: u64) -> Result<Tile, ReadError> {
    let tile = Tile::new(Level::Hashes(level), index, TILE_WIDTH as u16);
    tile.ok_or_else(|| ReadError::new(format!("tile/{level}/{index}"), Problem::Beyond))
}
