//! Storage that was emptied or rolled back while the log ran.
//!
//! The journal drops a round only after its tiles and a checkpoint that covers the round are in
//! storage. If the published checkpoint is older than the first round of the journal, storage lost
//! the newer checkpoint, and perhaps more. The right edge does not show this: a round that crosses
//! a tile boundary writes wide tiles, which replace the lost narrow tiles. The tiles between the
//! published checkpoint and the journal show it. If the log continued and has published a newer
//! checkpoint since, tiles anywhere below show it.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use lucarne_ct::{Fingerprint, TileEntries};
use lucarne_storage::{AssetError, Assets};
use lucarne_tlog::{Level, RightEdge, TILE_WIDTH, Tile};

use crate::data::record::Record;
use crate::data::tree::Tree;
use crate::error::inconsistency::StorageInconsistency;
use crate::error::{Away, Fatal, ReadError};
use crate::read::damaged_files::DamagedFiles;
use crate::read::read_cache::read_cache;
use crate::read::verified_tiles::VerifiedTiles;

/// Maximum number of data tiles that one start verifies: one to two seconds of reads from a disk.
/// If there are more tiles, the start verifies the first tile, the last tile, and further tiles at
/// equal distances. The scrubber reads the remaining tiles later.
const MAX_TILES: u64 = 4096;

/// Number of entries whose tiles are all verified.
pub(super) const ALL_VERIFIED: u64 = MAX_TILES * TILE_WIDTH;

/// Maximum number of full tiles that each start looks for, at equal distances from the first tile
/// to the last tile before the journal.
const LOOKED_FOR: u64 = 16;

/// Maximum number of tiles that are read concurrently.
const CONCURRENCY: usize = 16;

/// Bytes of hash tiles kept during the check.
const CACHE_BYTES: u64 = 4 << 20;

/// Verifies the last `unconfirmed` entries of `tree`, the tree before the first round of the
/// journal, with their issuers: the entries after the published checkpoint, or the newest entries
/// if a damaged journal may have lost their rounds. The issuers of `rounds` are left out, because
/// recovery writes them again from the journal. Reads only a few tiles if no entry is unconfirmed,
/// which is the case after every ordinary stop and kill.
///
/// # Errors
/// [`Fatal::Inconsistent`] if a tile or an issuer is missing or damaged, [`Fatal::Away`] if
/// storage is unavailable.
pub(super) async fn check(
    unconfirmed: u64,
    tree: &Tree,
    rounds: &[Record],
    assets: &Arc<dyn Assets>,
) -> Result<(), Fatal> {
    not_emptied(tree.size(), &**assets).await?;
    if unconfirmed == 0 {
        return Ok(());
    }
    let published = tree.size().saturating_sub(unconfirmed);
    let rewritten = rounds.iter().flat_map(|round| &round.issuers);
    let rewritten = rewritten.map(|der| Fingerprint::of(der)).collect();
    match verify(published, &tree.edge, &rewritten, assets).await {
        Ok(()) => Ok(()),
        Err(ReadError::Unavailable(problem)) => Err(Away::Storage(problem).into()),
        Err(problem) => Err(Fatal::from(StorageInconsistency::BehindJournal {
            storage: assets.location(),
            published,
            size: tree.size(),
            problem,
        })),
    }
}

/// Refuses storage that lacks most of a sample of tiles, at equal distances, of the tree of `size`
/// entries. A single lost or damaged tile does not stop a log.
async fn not_emptied(size: u64, assets: &dyn Assets) -> Result<(), Fatal> {
    let looked_for: Vec<u64> = spread(0, size / TILE_WIDTH, LOOKED_FOR).collect();
    let gone: Vec<bool> = stream::iter(looked_for.clone())
        .map(|index| is_gone(index, assets))
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    let gone = looked_for.iter().zip(gone).filter(|(_, gone)| *gone);
    let gone: Vec<Tile> = gone
        .filter_map(|(index, _)| full(Level::Data, *index))
        .collect();
    let Some(first) = gone.first().filter(|_| 2 * gone.len() > looked_for.len()) else {
        return Ok(());
    };
    Err(Fatal::from(StorageInconsistency::Emptied {
        storage: assets.location(),
        missing: gone.len(),
        sampled: looked_for.len(),
        first: first.path(),
    }))
}

/// Returns `true` if both the entries and the hashes of a full tile are missing.
async fn is_gone(index: u64, assets: &dyn Assets) -> Result<bool, Fatal> {
    for tile in [full(Level::Hashes(0), index), full(Level::Data, index)] {
        let Some(tile) = tile else {
            return Ok(false);
        };
        match assets.get(&tile.path()).await {
            Ok(None) => {}
            Err(error @ (AssetError::Unavailable { .. } | AssetError::Silent { .. })) => {
                return Err(Away::Storage(Arc::new(error)).into());
            }
            Ok(Some(_)) | Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

fn full(level: Level, index: u64) -> Option<Tile> {
    Tile::new(level, index, TILE_WIDTH as u16)
}

async fn verify(
    published: u64,
    edge: &Arc<RightEdge>,
    rewritten: &BTreeSet<Fingerprint>,
    assets: &Arc<dyn Assets>,
) -> Result<(), ReadError> {
    let cache = read_cache(CACHE_BYTES);
    let tiles = VerifiedTiles::of_store(assets.clone(), cache, DamagedFiles::default());
    let issuers: BTreeSet<Fingerprint> = stream::iter(sample(published, edge.size()))
        .map(|tile| issuers(&tiles, edge, tile))
        .buffer_unordered(CONCURRENCY)
        .try_fold(BTreeSet::new(), async |mut all, of_tile| {
            all.extend(of_tile);
            Ok(all)
        })
        .await?;
    for issuer in issuers.difference(rewritten) {
        if tiles.issuer(issuer).await?.is_none() {
            return Err(ReadError::Damaged {
                path: format!("issuer/{issuer}"),
                problem: "is missing".into(),
            });
        }
    }
    Ok(())
}

/// Returns up to [`MAX_TILES`] of the data tiles with the entries from `start` to `size`,
/// including the first and the last of these tiles.
fn sample(start: u64, size: u64) -> impl Iterator<Item = Tile> {
    let first = start / TILE_WIDTH;
    let indices = spread(first, size.div_ceil(TILE_WIDTH) - first, MAX_TILES);
    indices.filter_map(move |index| Tile::widest(Level::Data, index, size))
}

/// Returns up to `most` of the `total` numbers from `first` on, at equal distances, including the
/// first and the last.
fn spread(first: u64, total: u64, most: u64) -> impl Iterator<Item = u64> {
    let count = total.min(most);
    (0..count).map(move |n| first + n * (total - 1) / (count - 1).max(1))
}

/// Returns the fingerprints of the issuers in the entries of a tile.
async fn issuers(
    tiles: &VerifiedTiles,
    edge: &Arc<RightEdge>,
    tile: Tile,
) -> Result<BTreeSet<Fingerprint>, ReadError> {
    let entries = tiles.entries(edge, tile).await?;
    let mut issuers = BTreeSet::new();
    for entry in TileEntries::all(&entries, tile.start_leaf()) {
        let entry = entry.map_err(|error| ReadError::Damaged {
            path: tile.path(),
            problem: error.to_string(),
        })?;
        issuers.extend(entry.leaf.fingerprints);
    }
    Ok(issuers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_first_and_the_last_tile() {
        for (start, size, count) in [
            (0, 1, 1),
            (0, 256, 1),
            (255, 600, 3),
            (256, 600, 2),
            (0, 2_000_000_000, MAX_TILES),
        ] {
            let tiles: Vec<Tile> = sample(start, size).collect();
            assert_eq!(tiles.len() as u64, count);
            assert_eq!(tiles[0].index(), start / TILE_WIDTH);
            let last = tiles[tiles.len() - 1];
            assert_eq!(last.index(), (size - 1) / TILE_WIDTH);
        }
    }
}
