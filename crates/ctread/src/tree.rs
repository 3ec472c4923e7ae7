//! The verified part of a log's tree: the right edge, and full tiles that were needed before. Any
//! other tile can be verified with this part.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile, tile_root};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::{Problem, ReadError, Source, tile};

/// Number of full tiles that are kept: 8 KiB each.
const KEPT: usize = 1024;

/// Hashes of one tile.
pub type TileHashes = Arc<[Hash]>;
/// Hashes of a full tile, once they are verified; `None` if the read failed.
type Kept = Arc<OnceCell<Option<TileHashes>>>;

/// The verified part of a tree, for any number of concurrent readers. A tile that several of them
/// need at the same time is read once: the first reader must be polled until it has the tile.
#[derive(Debug, Default)]
pub struct VerifiedTree {
    edge: Mutex<Arc<RightEdge>>,
    kept: Mutex<HashMap<(u8, u64), Kept>>,
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
            // A reader that is reading the tile stores the same hashes.
            let _ = self.place(0, index).set(Some(Arc::from(*hashes)));
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
        // Goes up to a verified tile, then down again, and verifies each tile with its parent.
        let (mut missing, mut above) = (Vec::new(), self.at_hand(&edge, level, index));
        while above.is_none() {
            let (level, index) = (level + missing.len() as u8, index >> (8 * missing.len()));
            let tile = Tile::new(Level::Hashes(level), index, TILE_WIDTH as u16);
            let path = || format!("tile/{level}/{index}");
            missing.push(tile.ok_or_else(|| ReadError::new(path(), Problem::Beyond))?);
            above = self.at_hand(&edge, level + 1, index / TILE_WIDTH);
        }
        let mut above = above.unwrap_or_default();
        while let Some(tile) = missing.pop() {
            let kept = self.place(height(tile), tile.index());
            let mut failure = None;
            let first = async {
                let verified = verified(source, tile, &above).await;
                verified.map_err(|error| failure = Some(error)).ok()
            };
            let shared = kept.get_or_init(|| first).await.clone();
            above = match (shared, failure) {
                (Some(hashes), _) => hashes,
                (None, Some(error)) => {
                    // The next reader shares a new read.
                    let mut all = self.kept.lock();
                    all.retain(|_, place| !Arc::ptr_eq(place, &kept));
                    return Err(error);
                }
                // The read of another reader failed. All its waiters read at the same time: one
                // after the other, the last would wait for the time limits of all.
                (None, None) => verified(source, tile, &above).await?,
            };
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

    /// Returns the place of a full tile.
    fn place(&self, level: u8, index: u64) -> Kept {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT && !kept.contains_key(&(level, index)) {
            // Any tile can be dropped: a tile is fetched again when needed.
            let victim = kept.keys().next().copied();
            victim.map(|victim| kept.remove(&victim));
        }
        Arc::clone(kept.entry((level, index)).or_default())
    }

    fn at_hand(&self, edge: &RightEdge, level: u8, index: u64) -> Option<TileHashes> {
        match Tile::rightmost_partial(Level::Hashes(level), edge.size()) {
            Some(tile) if tile.index() == index => Some(edge.partial(level).into()),
            _ => self.kept.lock().get(&(level, index))?.get()?.clone(),
        }
    }
}

/// Reads a full tile, and compares its hash with the tile above.
async fn verified(
    source: &dyn Source,
    tile: Tile,
    above: &[Hash],
) -> Result<TileHashes, ReadError> {
    let bytes = tile::tile(source, tile).await?;
    let expected = above.get((tile.index() % TILE_WIDTH) as usize).copied();
    if expected.is_none() || tile_root(&bytes) != expected {
        return Err(ReadError::of(tile, Problem::Hashes));
    }
    Ok(tile::hashes(&bytes).into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_new_tile_replaces_another_tile() {
        let tree = VerifiedTree::default();
        let places: Vec<_> = (0..).map(|index| tree.place(0, index)).take(KEPT).collect();
        for (index, place) in (0..).zip(&places) {
            assert!(Arc::ptr_eq(place, &tree.place(0, index)), "{index}");
        }
        tree.place(1, 0);
        assert_eq!(tree.kept.lock().len(), KEPT);
    }
}
