//! Verified part of a tree: the right edge, and full tiles that were requested before. Any other
//! tile can be verified with this part.

use std::collections::HashMap;
use std::sync::Arc;

use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile, tile_root};
use parking_lot::Mutex;

use super::checks::{self, Finding};
use super::fetch::{Fetch, FetchError};

/// Number of full tiles that are kept: 8 KiB each.
const KEPT: usize = 1024;

/// Hashes of one tile.
pub(crate) type TileHashes = Arc<[Hash]>;

/// Verified part of a tree. The monitor extends this part, and all readers share it.
#[derive(Debug)]
pub struct TileCache {
    edge: Mutex<Arc<RightEdge>>,
    kept: Mutex<HashMap<(u8, u64), TileHashes>>,
}

impl Default for TileCache {
    fn default() -> Self {
        Self {
            edge: Mutex::new(Arc::new(RightEdge::new())),
            kept: Mutex::default(),
        }
    }
}

impl TileCache {
    /// Returns the right edge of the verified tree.
    #[must_use]
    pub fn edge(&self) -> Arc<RightEdge> {
        Arc::clone(&self.edge.lock())
    }

    /// Sets the right edge of the verified tree.
    pub(crate) fn advance(&self, edge: RightEdge) {
        *self.edge.lock() = Arc::new(edge);
    }

    /// Stores a full tile with verified hashes.
    pub(crate) fn keep(&self, level: u8, index: u64, hashes: TileHashes) {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT {
            // Any tile can be dropped: a tile is fetched again when needed.
            let victim = kept.keys().next().copied();
            victim.map(|victim| kept.remove(&victim));
        }
        kept.insert((level, index), hashes);
    }

    fn kept(&self, level: u8, index: u64) -> Option<TileHashes> {
        self.kept.lock().get(&(level, index)).cloned()
    }

    /// Returns the verified hashes of the tile at `index` of `level`, in its width in the verified
    /// tree.
    ///
    /// # Errors
    /// If a tile is unavailable, or does not lead to the root; also `tile_consistent` if the
    /// verified tree has no such tile.
    pub async fn hashes<F: Fetch>(
        &self,
        fetch: &mut F,
        level: u8,
        index: u64,
    ) -> Result<TileHashes, FetchError> {
        let edge = self.edge();
        if let Some(hashes) = self.at_hand(&edge, level, index) {
            return Ok(hashes);
        }
        // Goes up to a verified tile, then down again, and verifies each tile with its parent.
        let mut missing = vec![full(level, index)?];
        let mut above = loop {
            let (lowest, number) = missing[missing.len() - 1];
            let parent = full(lowest + 1, number / TILE_WIDTH)?;
            match self.at_hand(&edge, parent.0, parent.1) {
                Some(hashes) => break hashes,
                None => missing.push(parent),
            }
        };
        while let Some((level, index)) = missing.pop() {
            let path = path(level, index);
            let bytes = fetch.get(&path).await?;
            let expected = above.get((index % TILE_WIDTH) as usize);
            let root = tile_root(&bytes).ok_or_else(|| wrong_length(&path, bytes.len()))?;
            if expected != Some(&root) {
                let detail = format!("{path}: the hashes do not lead to the tile above it");
                return Err(Finding::new(checks::TILE_CONSISTENT, detail).into());
            }
            above = parse_hashes(&bytes).unwrap_or_default().into();
            self.keep(level, index, Arc::clone(&above));
        }
        Ok(above)
    }

    fn at_hand(&self, edge: &RightEdge, level: u8, index: u64) -> Option<TileHashes> {
        match Tile::rightmost_partial(Level::Hashes(level), edge.size()) {
            Some(tile) if tile.index() == index => Some(edge.partial(level).into()),
            _ => self.kept(level, index),
        }
    }
}

fn full(level: u8, index: u64) -> Result<(u8, u64), FetchError> {
    match Tile::new(Level::Hashes(level), index, TILE_WIDTH as u16) {
        Some(_) => Ok((level, index)),
        None => {
            let detail = format!("no verified tree has a tile {index} of level {level}");
            Err(Finding::new(checks::TILE_CONSISTENT, detail).into())
        }
    }
}

fn path(level: u8, index: u64) -> String {
    Tile::new(Level::Hashes(level), index, TILE_WIDTH as u16)
        .map(|tile| tile.path())
        .unwrap_or_default()
}

/// Splits the bytes of a tile into hashes; `None` if the length is not a multiple of 32.
pub(crate) fn parse_hashes(bytes: &[u8]) -> Option<Vec<Hash>> {
    let (parse_hashes, rest) = bytes.as_chunks::<{ Hash::LENGTH }>();
    rest.is_empty()
        .then(|| parse_hashes.iter().copied().map(Hash).collect())
}

/// Returns the hashes of a hash tile. Their number must equal the width of the tile.
pub(crate) fn parse_hash_tile(tile: &Tile, bytes: &[u8]) -> Result<Vec<Hash>, Finding> {
    parse_hashes(bytes)
        .filter(|parse_hashes| parse_hashes.len() == usize::from(tile.width()))
        .ok_or_else(|| {
            let expected = usize::from(tile.width()) * Hash::LENGTH;
            let detail = format!("{tile}: expected {expected} bytes, found {}", bytes.len());
            Finding::new(checks::TILE_WELLFORMED, detail)
        })
}

fn wrong_length(path: &str, length: usize) -> FetchError {
    let detail = format!("{path}: expected 8192 bytes, found {length}");
    Finding::new(checks::TILE_WELLFORMED, detail).into()
}
