//! Computation of a tile's hashes from lower tiles or from entries.

use bytes::Bytes;
use lucarne_ct::TileEntries;
use lucarne_ctread::Source;
use lucarne_tlog::{Hash, Level, TILE_WIDTH, Tile, tile_root};

use super::tiles::tile;

/// The depth of the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Reads the tiles or the entries directly beneath.
    Next,
    /// Reads the entries, regardless of their number.
    Entries,
}

/// Computes the hashes of a hash tile; returns `None` if the tiles beneath cannot be read.
pub(crate) async fn beneath(files: &dyn Source, of: Tile, depth: Depth) -> Option<Bytes> {
    let Level::Hashes(level) = of.level() else {
        return None;
    };
    let Some(below) = level.checked_sub(1) else {
        return leaf_hashes(files, of).await;
    };
    let mut hashes = Vec::with_capacity(usize::from(of.width()) * Hash::LENGTH);
    let first = of.index() * TILE_WIDTH;
    for index in first..first + u64::from(of.width()) {
        let child = Tile::new(Level::Hashes(below), index, TILE_WIDTH as u16)?;
        let bytes = match depth {
            Depth::Next => tile(files, child).await.ok()?,
            Depth::Entries => Box::pin(beneath(files, child, depth)).await?,
        };
        hashes.extend_from_slice(&tile_root(&bytes)?.0);
    }
    Some(hashes.into())
}

/// Computes the hashes of a tile of level 0 from its entries.
async fn leaf_hashes(files: &dyn Source, of: Tile) -> Option<Bytes> {
    let data = Tile::new(Level::Data, of.index(), of.width())?;
    let entries = tile(files, data).await.ok()?;
    let (mut hashes, mut buffer) = (Vec::new(), Vec::new());
    for entry in TileEntries::first(&entries, 0, of.width().into()) {
        hashes.extend_from_slice(&entry.ok()?.leaf.leaf_hash(&mut buffer).0);
    }
    Some(hashes.into())
}
