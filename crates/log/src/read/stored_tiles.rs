//! Tiles as stored, by any software.
//!
//! A narrower partial tile is a prefix of a wider partial tile, and of the full tile. Lucarne and
//! Sunlight store data tiles in gzip. TesseraCT does not compress them, and earlier versions of
//! Lucarne did not compress partial tiles. The first bytes distinguish compressed and uncompressed
//! tiles: gzip begins with 1f 8b, an uncompressed tile with a timestamp. Any stored tile with the
//! requested entries can therefore be used.

use bytes::Bytes;
use futures_util::future::try_join_all;
use lucarne_ctread::{Problem, gunzip, leaves, prefix};
use lucarne_storage::Assets;
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile};

use crate::data::tree::DataEdge;
use crate::error::ReadError;

/// Returns the bytes, or `None` if the blocks of the file cannot be read: an unreadable file counts
/// as missing. Other errors are returned, because they may be temporary.
pub(crate) fn if_readable(
    read: Result<Option<Bytes>, lucarne_storage::AssetError>,
) -> Result<Option<Bytes>, lucarne_storage::AssetError> {
    match read {
        Err(lucarne_storage::AssetError::Io { .. }) => Ok(None),
        read => read,
    }
}

/// Returns the uncompressed bytes of exactly this tile, from this tile, the full tile or a wider
/// partial tile; `None` if storage does not have any of these tiles.
pub(crate) async fn tile(assets: &dyn Assets, tile: Tile) -> Result<Option<Bytes>, ReadError> {
    // In nearly all cases the tile itself exists, and one request is enough.
    let own = tile.path();
    if let Some(bytes) = assets.get(&own).await? {
        return unpacked(tile, own, bytes).map(Some);
    }
    let others = candidates(assets, tile).await?.into_iter().skip(1);
    for path in others.map(|other| other.path()) {
        if let Some(bytes) = assets.get(&path).await? {
            return unpacked(tile, path, bytes).map(Some);
        }
    }
    Ok(None)
}

fn unpacked(tile: Tile, path: String, bytes: Bytes) -> Result<Bytes, ReadError> {
    let plain = gunzip(bytes).map_err(Problem::Gzip);
    let bytes = plain.and_then(|plain| prefix(tile, plain));
    bytes.map_err(|error| ReadError::Damaged {
        path,
        problem: error.to_string(),
    })
}

/// Returns the tiles that contain this tile: the tile itself, the full tile, wider partial tiles.
pub(crate) async fn candidates(assets: &dyn Assets, tile: Tile) -> Result<Vec<Tile>, ReadError> {
    let mut tiles = vec![tile];
    if !tile.is_full() {
        let full = tile.full();
        tiles.push(full);
        let widths = assets.partials(&full.path()).await?;
        let wider = widths.into_iter().filter(|width| *width > tile.width());
        tiles.extend(wider.filter_map(|width| Tile::new(tile.level(), tile.index(), width)));
    }
    Ok(tiles)
}

/// Returns the rightmost hash tiles of the tree of `size` entries. The caller must compare their
/// root with a signed root.
pub(crate) async fn edge(assets: &dyn Assets, size: u64) -> Result<RightEdge, ReadError> {
    let tiles: Vec<Tile> = RightEdge::tiles(size).collect();
    let found = try_join_all(tiles.iter().map(|tile| whole(assets, *tile))).await?;
    let found: Vec<_> = tiles.into_iter().zip(found).collect();
    RightEdge::load(size, |tile| {
        let bytes = found.iter().find(|(found, _)| *found == tile);
        bytes.map(|(_, bytes)| bytes.to_vec()).ok_or("not read")
    })
    .map_err(ReadError::edge)
}

/// Returns the partial data tile, whose entries must have these hashes. Rounds append to its bytes,
/// and do not hash its entries again.
///
/// Any stored tile that is wide enough can be used.
pub(crate) async fn data_edge(
    assets: &dyn Assets,
    size: u64,
    hashes: &[Hash],
) -> Result<DataEdge, ReadError> {
    let Some(tile) = Tile::rightmost_partial(Level::Data, size) else {
        return Ok(DataEdge::default());
    };
    let problem = match whole(assets, tile).await {
        Ok(bytes) => match hashed(tile, bytes, hashes) {
            Ok(edge) => return Ok(edge),
            Err(problem) => problem,
        },
        Err(problem @ ReadError::Damaged { .. }) => problem,
        Err(error) => return Err(error),
    };
    for wider in candidates(assets, tile).await?.into_iter().skip(1) {
        let Some(stored) = if_readable(assets.get(&wider.path()).await)? else {
            continue;
        };
        let edge = unpacked(tile, wider.path(), stored);
        if let Ok(edge) = edge.and_then(|bytes| hashed(tile, bytes, hashes)) {
            return Ok(edge);
        }
    }
    Err(problem)
}

/// Parses the entries of a data tile, which must have these hashes.
fn hashed(tile: Tile, bytes: Bytes, hashes: &[Hash]) -> Result<DataEdge, ReadError> {
    let damaged = |problem: String| ReadError::Damaged {
        path: tile.path(),
        problem,
    };
    let (leaves, ends) = leaves(&bytes).map_err(|error| damaged(error.to_string()))?;
    if leaves != hashes {
        return Err(damaged(
            "does not match the leaf hashes of its entries".into(),
        ));
    }
    debug_assert!((ends.len() as u64) < TILE_WIDTH);
    Ok(DataEdge {
        bytes,
        ends,
        packed: None,
    })
}

async fn whole(assets: &dyn Assets, tile: Tile) -> Result<Bytes, ReadError> {
    self::tile(assets, tile)
        .await?
        .ok_or_else(|| ReadError::Damaged {
            path: tile.path(),
            problem: if tile.is_full() {
                "is missing".into()
            } else {
                "is missing, and no wider tile exists".into()
            },
        })
}

#[cfg(test)]
mod tests {
    use lucarne_storage::MemoryAssets;

    use super::*;
    use crate::read::verified_tiles::tests::entry;

    #[tokio::test]
    async fn a_data_tile_that_is_not_what_was_hashed_is_damaged() {
        let mut data = entry(0);
        let root = leaves(&data).unwrap().0[0];
        let assets = MemoryAssets::new();
        let hash = Bytes::copy_from_slice(&root.0);
        assets.tamper("tile/0/000.p/1", Some(hash));
        assets.tamper("tile/data/000.p/1", Some(data.clone().into()));
        assert_eq!(edge(&assets, 1).await.unwrap().root(), root);
        data_edge(&assets, 1, &[root]).await.unwrap();
        // Flip a bit of the certificate.
        data[15] ^= 4;
        assets.tamper("tile/data/000.p/1", Some(data.into()));
        let error = data_edge(&assets, 1, &[root]).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("tile/data/000.p/1"), "{error}");
    }
}
