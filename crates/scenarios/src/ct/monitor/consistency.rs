//! Extension of trees: from leaf hashes to a root, and from tiles to a right edge.

use std::collections::BTreeMap;

use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile, tile_root};

use crate::ct::checks::{self, Finding};
use crate::ct::entries;
use crate::ct::fetch::{self, Fetch, FetchError};
use crate::ct::tile_cache::TileCache;
use crate::ct::tree_heads::TreeHead;

/// An extended tree whose roots match the signed roots.
pub(super) struct ExtendedTree {
    pub(super) edge: RightEdge,
    /// New full tiles above level 0, and their roots.
    pub(super) above: Vec<(Tile, Hash)>,
}

/// The root of a checkpoint is not the root of the tree of its size.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Inconsistency {
    /// The tree of this size was verified before.
    #[error(
        "the checkpoint of size {size} has the root {root}: expected the root {computed} of the \
         verified tree"
    )]
    Earlier {
        size: u64,
        root: Hash,
        computed: Hash,
    },
    /// The tiles extend the verified tree of size `start` to another root.
    #[error(
        "the checkpoint of size {size} has the root {root}: expected {computed}, which its tiles \
         give from the verified tree of size {start}"
    )]
    Extension {
        size: u64,
        root: Hash,
        start: u64,
        computed: Hash,
    },
}

/// Appends `leaves`, and compares the roots on the way.
pub(super) fn extend(
    edge: &RightEdge,
    leaves: &[Hash],
    head: &TreeHead,
    between: &[(u64, Hash)],
) -> Result<ExtendedTree, Inconsistency> {
    let mut edge = edge.clone();
    let start = edge.size();
    let mut above = Vec::new();
    let on_the_way = between
        .iter()
        .filter(|(size, _)| (start + 1..head.size).contains(size));
    for (size, root) in on_the_way.copied().chain([(head.size, head.root)]) {
        let range = (edge.size() - start) as usize..(size - start) as usize;
        let new = leaves.get(range).unwrap_or_default();
        for (tile, bytes) in edge.append(new) {
            let level = tile.level();
            if tile.is_full() && level != Level::Hashes(0) {
                above.extend(tile_root(&bytes).map(|root| (tile, root)));
            }
        }
        let computed = edge.root();
        if computed != root {
            return Err(Inconsistency::Extension {
                size,
                root,
                start,
                computed,
            });
        }
    }
    Ok(ExtendedTree { edge, above })
}

/// Returns the leaf hashes of a range of entries, computed from the data tiles.
pub(super) async fn entry_leaves<F: Fetch>(
    fetch: &mut F,
    from: u64,
    size: u64,
) -> Result<Vec<Hash>, FetchError> {
    let mut leaves = Vec::new();
    for index in from / TILE_WIDTH..size.div_ceil(TILE_WIDTH) {
        let Some(tile) = Tile::widest(Level::Data, index, size) else {
            continue;
        };
        let bytes = fetch::tile(fetch, &tile).await?;
        let entries = entries::read(&tile, &bytes)?;
        let known = from.saturating_sub(tile.start_leaf()) as usize;
        leaves.extend_from_slice(entries.leaves.get(known..).unwrap_or_default());
    }
    Ok(leaves)
}

/// Reads the right edge of a tree from its tiles.
pub(super) async fn load_edge<F: Fetch>(fetch: &mut F, size: u64) -> Result<RightEdge, FetchError> {
    let mut tiles = BTreeMap::new();
    for tile in RightEdge::tiles(size) {
        tiles.insert(tile, fetch::tile(fetch, &tile).await?);
    }
    let read = |tile: Tile| {
        tiles
            .get(&tile)
            .map(|bytes| bytes.to_vec())
            .ok_or("not read")
    };
    RightEdge::load(size, read).map_err(|error| Finding::new(checks::TILE_WELLFORMED, error).into())
}

/// Returns the root of an earlier tree of `size` leaves, from the tiles of the verified tree. The
/// root is needed for a checkpoint that was read late.
///
/// # Errors
/// If tiles are unavailable, or do not lead to the verified root.
pub(crate) async fn root_at<F: Fetch>(
    tile_cache: &TileCache,
    fetch: &mut F,
    size: u64,
) -> Result<Hash, FetchError> {
    let mut tiles = BTreeMap::new();
    for tile in RightEdge::tiles(size) {
        let Level::Hashes(level) = tile.level() else {
            continue;
        };
        let hashes = tile_cache.hashes(fetch, level, tile.index()).await?;
        let width = usize::from(tile.width()).min(hashes.len());
        let bytes: Vec<u8> = hashes[..width].iter().flat_map(|hash| hash.0).collect();
        tiles.insert(tile, bytes);
    }
    RightEdge::load(size, |tile| tiles.remove(&tile).ok_or("not read"))
        .map(|edge| edge.root())
        .map_err(|error| Finding::new(checks::TILE_WELLFORMED, error).into())
}
