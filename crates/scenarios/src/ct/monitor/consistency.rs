//! Extension of trees, from leaf hashes to a root.

use lucarne_ctread::{Source, TileContent};
use lucarne_tlog::{Hash, Level, RightEdge, Tile, data_tiles_between, tile_root};

use crate::ct::fetch::{self, FetchError};
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
pub(super) async fn entry_leaves(
    source: &dyn Source,
    from: u64,
    size: u64,
) -> Result<Vec<Hash>, FetchError> {
    let mut leaves = Vec::new();
    for tile in data_tiles_between(from, size) {
        let entries = TileContent::parse(tile, &fetch::tile(source, tile).await?)?;
        let known = from.saturating_sub(tile.start_leaf()) as usize;
        leaves.extend_from_slice(entries.leaves.get(known..).unwrap_or_default());
    }
    Ok(leaves)
}
