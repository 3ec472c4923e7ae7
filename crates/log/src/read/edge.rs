//! The right edge of a tree with damaged tiles.
//!
//! The hashes of a tile follow from lower tiles or from entries, and the signed root shows whether
//! the hashes are right. A log with a damaged hash tile can start: the tile is computed again.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use lucarne_storage::{Asset, AssetError, AssetKind, Assets};
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile, tile_root};

use crate::data::tree::Tree;
use crate::error::ReadError;
use crate::error::inconsistency::TreeError;
use crate::read::stored_tiles;

/// Maximum number of tiles that are read concurrently.
const CONCURRENCY: usize = 16;

/// A tree that was read from storage.
pub(crate) struct Found {
    pub(crate) tree: Tree,
    /// Correct versions of the hash tiles that are damaged or missing.
    pub(crate) damaged: Vec<Asset>,
}

/// The reason why tiles do not lead to a root.
pub(crate) enum Problem {
    /// Storage is unavailable.
    Away(Arc<AssetError>),
    /// Tiles are damaged, missing, or of another tree.
    Tiles {
        problem: TreeError,
        /// The files that may be at fault. Empty if the tiles are undamaged and belong to another
        /// tree.
        files: Vec<String>,
    },
}

/// The stored and the computed content of one tile of the edge.
struct Versions {
    tile: Tile,
    stored: Option<Bytes>,
    /// The tile as computed from lower tiles or from entries.
    computed: Option<Bytes>,
}

impl Versions {
    async fn read(assets: &dyn Assets, tile: Tile) -> Result<Versions, Arc<AssetError>> {
        let length = usize::from(tile.width()) * Hash::LENGTH;
        let stored = readable(stored_tiles::tile(assets, tile).await)?;
        Ok(Versions {
            tile,
            stored: stored.filter(|bytes| bytes.len() == length),
            computed: readable(beneath(assets, tile).await)?,
        })
    }

    fn choose(&self, computed: bool) -> Option<&Bytes> {
        if computed {
            self.computed.as_ref()
        } else {
            self.stored.as_ref()
        }
    }

    fn is_whole(&self) -> bool {
        self.stored.is_some() && self.stored == self.computed
    }
}

/// Reads the tree of `size` entries with this root, from its rightmost tiles. Hash tiles that do
/// not lead to the root are computed from the tiles or entries beneath them.
///
/// # Errors
/// If the computed tiles do not lead to the root either.
pub(crate) async fn tree(assets: &dyn Assets, (size, root): (u64, Hash)) -> Result<Found, Problem> {
    let (edge, damaged) = right_edge(assets, (size, root)).await?;
    match stored_tiles::data_edge(assets, size, edge.partial(0)).await {
        Ok(data) => Ok(Found {
            tree: Tree::from_edges(edge, data),
            damaged,
        }),
        Err(ReadError::Unavailable(problem)) => Err(Problem::Away(problem)),
        Err(error) => Err(Problem::Tiles {
            problem: TreeError::Read(error),
            files: Tile::rightmost_partial(Level::Data, size)
                .iter()
                .map(Tile::path)
                .collect(),
        }),
    }
}

/// Reads the right edge of the tree with this root. Also returns the correct versions of those hash
/// tiles of the edge that are damaged or missing.
///
/// # Errors
/// If neither the tiles nor the tiles or entries beneath them lead to the root.
pub(crate) async fn right_edge(
    assets: &dyn Assets,
    (size, root): (u64, Hash),
) -> Result<(RightEdge, Vec<Asset>), Problem> {
    let problem = match stored_tiles::edge(assets, size).await {
        Ok(edge) if edge.root() == root => return Ok((edge, Vec::new())),
        Ok(edge) => TreeError::Root {
            size,
            found: edge.root(),
            expected: root,
        },
        Err(ReadError::Unavailable(problem)) => return Err(Problem::Away(problem)),
        Err(error) => TreeError::Read(error),
    };
    let versions = stream::iter(RightEdge::tiles(size))
        .then(|tile| Versions::read(assets, tile))
        .try_collect::<Vec<_>>();
    let versions = versions.await.map_err(Problem::Away)?;
    restored((size, root), &versions).ok_or_else(|| {
        let broken = versions.iter().filter(|versions| !versions.is_whole());
        let files = broken.flat_map(|versions| {
            let entries = Tile::new(Level::Data, versions.tile.index(), versions.tile.width());
            let entries = entries.filter(|_| versions.tile.level() == Level::Hashes(0));
            [Some(versions.tile), entries]
        });
        let files = files.flatten().map(|tile| tile.path()).collect();
        Problem::Tiles { problem, files }
    })
}

/// Finds the first combination of stored and computed tiles that has this root.
fn restored((size, root): (u64, Hash), versions: &[Versions]) -> Option<(RightEdge, Vec<Asset>)> {
    (0..1_u32 << versions.len()).find_map(|computed| {
        let is_computed = |place: usize| computed >> place & 1 == 1;
        let edge = RightEdge::load(size, |tile| {
            let place = versions.iter().position(|versions| versions.tile == tile);
            let bytes = place.and_then(|place| versions[place].choose(is_computed(place)));
            bytes.map(|bytes| bytes.to_vec()).ok_or("missing tile")
        });
        let edge = edge.ok().filter(|edge| edge.root() == root)?;
        let wrong = versions.iter().enumerate().filter_map(|(place, versions)| {
            let right = versions.choose(is_computed(place))?;
            let is_wrong = versions.stored.as_ref() != Some(right);
            let asset = || Asset::new(versions.tile.path(), right.clone(), AssetKind::HashTile);
            is_wrong.then(asset)
        });
        Some((edge, wrong.collect()))
    })
}

/// Computes the hashes of a tile from the tiles or entries beneath it; returns `None` if one of
/// these is missing.
async fn beneath(assets: &dyn Assets, of: Tile) -> Result<Option<Bytes>, ReadError> {
    let Level::Hashes(level) = of.level() else {
        return Ok(None);
    };
    let Some(below) = level.checked_sub(1) else {
        let data = Tile::new(Level::Data, of.index(), of.width());
        let data = match data {
            Some(data) => stored_tiles::tile(assets, data).await?,
            None => None,
        };
        let leaves = data.and_then(|entries| lucarne_ctread::leaves(&entries).ok());
        return Ok(leaves.map(|(leaves, _)| leaves.iter().flat_map(|leaf| leaf.0).collect()));
    };
    let first = of.index() * TILE_WIDTH;
    let children = (first..).take(usize::from(of.width()));
    let hashes = stream::iter(children)
        .map(async |index| {
            let child = Tile::new(Level::Hashes(below), index, TILE_WIDTH as u16);
            let bytes = match child {
                Some(child) => stored_tiles::tile(assets, child).await?,
                None => None,
            };
            Ok::<_, ReadError>(bytes.and_then(|bytes| tile_root(&bytes)))
        })
        .buffered(CONCURRENCY);
    let hashes: Option<Vec<Hash>> = hashes.try_collect::<Vec<_>>().await?.into_iter().collect();
    Ok(hashes.map(|hashes| hashes.iter().flat_map(|hash| hash.0).collect()))
}

/// Treats a damaged tile as a missing tile.
fn readable<T>(read: Result<Option<T>, ReadError>) -> Result<Option<T>, Arc<AssetError>> {
    match read {
        Err(ReadError::Unavailable(problem)) => Err(problem),
        read => Ok(read.unwrap_or_default()),
    }
}
