//! Damaged files of a running log, restored at once from the log's own data.
//!
//! The hashes of a hash tile follow from the tiles or the entries beneath it. The entries of a
//! data tile may still be in memory, in another tile or in the journal, and an issuer in the
//! journal. A cache of readers may have any of these files. The signed tree, or the fingerprint,
//! confirms every byte before it is written. The damaged file is kept as evidence.

mod entries;
mod failure;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lucarne_ct::Fingerprint;
use lucarne_ctread::{Bucket, gunzip};
use lucarne_storage::{Asset, AssetKind, Encoding};
use lucarne_tlog::{Level, RightEdge, Tile, tile_root};

use self::failure::{Failure, Later, NoSource};
use crate::check::fsck::beneath::{Depth, beneath};
use crate::data::gzip::gzip;
use crate::data::names_tile;
use crate::data::record::Record;
use crate::error::ReadError;
use crate::read::read_cache::{FileId, read_cache};
use crate::recovery::recover;
use crate::recovery::replace_damaged::replace_damaged;
use crate::shared::Shared;

/// The pause before the next attempt, if storage was unavailable.
const RETRY: Duration = Duration::from_secs(60);

/// Bytes of hash tiles kept while a cached file is verified.
const CACHE_BYTES: u64 = 1 << 20;

/// Maximum number of files of one log that a process restores.
const MOST_RESTORED: usize = 10_000;

/// The state of a file that was damaged when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The right file was written.
    Restored,
    /// The file is right, or is not needed any more.
    Right,
}

/// The right content of a file, without compression.
struct Right {
    plain: Bytes,
    /// The place that has the content, for the log of the server.
    from: &'static str,
}

/// Restores the files that readers and the scrubber find damaged, until the future is dropped. A
/// file is restored only once: a disk that damages the file again does not keep the bytes.
pub(crate) async fn attend(log: Arc<Shared>) -> Infallible {
    let damaged = log.reader.tiles().damaged();
    let mut restored = HashSet::new();
    loop {
        tokio::select! {
            () = damaged.news() => {}
            // No event reports that storage is available again.
            () = tokio::time::sleep(RETRY) => {}
        }
        let before = restored.len();
        for file in damaged.untried() {
            let again = restored.contains(&file) || restored.len() >= MOST_RESTORED;
            let outcome = if again {
                Err(NoSource::Again.into())
            } else {
                restore(&log, file).await
            };
            match outcome {
                Ok(Outcome::Restored) => {
                    restored.insert(file);
                }
                Ok(Outcome::Right) => {}
                Err(Failure::Later(problem)) => {
                    tracing::debug!(
                        log = log.config.shortname,
                        path = file.path(),
                        problem = problem.to_string(),
                        "not restored yet"
                    );
                    damaged.try_again(file);
                }
                Err(Failure::NoSource(problem)) => tracing::warn!(
                    log = log.config.shortname,
                    path = file.path(),
                    problem = problem.to_string(),
                    "the log itself cannot restore a damaged file: run `lucarne repair --from` \
                     with a copy of the log"
                ),
            }
        }
        if restored.len() > before {
            damaged.try_all_again();
        }
    }
}

/// Restores the names tile of a data tile, which depends only on the entries. Returns whether the
/// tile was written.
pub(crate) async fn names_tile(log: &Shared, data: Tile) -> bool {
    let restored = async {
        let edge = edge(log).await?;
        let entries = log.reader.tiles().entries(&edge, data).await?;
        let right = names_tile::names_tile(&entries);
        let bytes = right.map_err(NoSource::Coding)?;
        let path = data.names_path().unwrap_or_default();
        replace(
            log,
            Asset::new(path, bytes, AssetKind::NamesTile),
            "its data tile",
        )
        .await
    };
    let Err(failure) = restored.await else {
        return true;
    };
    tracing::warn!(
        log = log.config.shortname,
        problem = failure.to_string(),
        "cannot restore a damaged names tile: run `lucarne repair`"
    );
    false
}

async fn restore(log: &Shared, file: FileId) -> Result<Outcome, Failure> {
    let edge = edge(log).await?;
    let right = match (cached(log, &edge, file).await, file) {
        (Some(right), _) => right,
        (None, FileId::Issuer(of)) => issuer(log, &of).await?,
        (None, FileId::Tile(tile)) => match tile.level() {
            Level::Hashes(level) => hash_tile(log, &edge, (tile, level)).await?,
            Level::Data => entries::data_tile(log, &edge, tile).await?,
        },
    };
    let outcome = if is_right(log, &edge, (file, &right.plain)).await? {
        Outcome::Right
    } else {
        let from = right.from;
        replace(log, asset(file, right.plain)?, from).await?;
        Outcome::Restored
    };
    if let FileId::Issuer(of) = file {
        log.reader.issuers_published([of].into_iter());
    }
    log.reader.tiles().damaged().forget(file);
    // A file that is still wrong enters the list of damaged files again.
    let _ = log.reader.tiles().stored(&edge, file).await;
    Ok(outcome)
}

/// Returns the content of a file that a cache still has, or that is right by now. A file that the
/// scrubber has condemned agrees with the tree as well, so a condemned file is not read here.
async fn cached(log: &Shared, edge: &Arc<RightEdge>, file: FileId) -> Option<Right> {
    if log.reader.tiles().damaged().is_condemned(file) {
        return None;
    }
    let tiles = log.reader.tiles().unread(read_cache(CACHE_BYTES));
    let plain = match file {
        FileId::Issuer(of) => tiles.issuer(&of).await.ok()??,
        FileId::Tile(tile) if !tile.is_full() => return None,
        FileId::Tile(tile) => match tile.level() {
            Level::Hashes(_) => tiles.hashes(edge, tile).await.ok()?,
            Level::Data => tiles.entries(edge, tile).await.ok()?,
        },
    };
    let from = "a cache";
    Some(Right { plain, from })
}

/// Returns the right edge of the published tree. Storage with an older checkpoint was emptied or
/// rolled back. The next recovery judges the storage; until then nothing is written.
async fn edge(log: &Shared) -> Result<Arc<RightEdge>, Failure> {
    let edge = log.reader.signed_edge().await?.ok_or(Later::Unpublished)?;
    match recover::published(&log.config, &*log.assets).await {
        Ok(Some(head)) if head.checkpoint.size >= edge.size() => Ok(edge),
        Ok(_) => Err(Later::Stale.into()),
        Err(fatal) => Err(Later::Checkpoint(fatal).into()),
    }
}

/// Returns `true` if a file has this content now, or is a partial tile that was removed after a
/// wider tile replaced it.
async fn is_right(
    log: &Shared,
    edge: &RightEdge,
    (file, plain): (FileId, &Bytes),
) -> Result<bool, Failure> {
    let found = match log.assets.get(&file.path()).await.map_err(ReadError::from) {
        Err(ReadError::Unavailable(problem)) => return Err(Later::Storage(problem).into()),
        found => found.unwrap_or_default(),
    };
    Ok(match (found, file) {
        (Some(found), FileId::Tile(tile)) if tile.level() == Level::Data => {
            gunzip(found).is_ok_and(|found| found == plain)
        }
        (Some(found), _) => found == plain,
        (None, FileId::Tile(tile)) => {
            let newest = Tile::widest(tile.level(), tile.index(), edge.size());
            newest.is_some_and(|newest| newest != tile)
        }
        (None, FileId::Issuer(_)) => false,
    })
}

/// Computes the hashes of a tile from memory, from the tiles or entries beneath it, or from the
/// journal.
async fn hash_tile(
    log: &Shared,
    edge: &Arc<RightEdge>,
    (tile, level): (Tile, u8),
) -> Result<Right, Failure> {
    let tiles = log.reader.tiles();
    if !tile.is_full() {
        let plain = tiles.hashes(edge, tile).await?;
        let from = "the tree in memory";
        return Ok(Right { plain, from });
    }
    let root = tiles.entry(edge, level + 1, tile.index()).await?;
    let is_right = |hashes: &Bytes| tile_root(hashes) == Some(root);
    let files = Bucket(log.assets.clone());
    // Above level 1, a tile has too many entries to read while the log runs.
    let depths: &[Depth] = match level {
        1 => &[Depth::Next, Depth::Entries],
        _ => &[Depth::Next],
    };
    for depth in depths {
        if let Some(plain) = beneath(&files, tile, *depth).await.filter(is_right) {
            let from = "the tiles or entries beneath it";
            return Ok(Right { plain, from });
        }
    }
    let hashes = match level {
        0 => entries::hashes_from_journal(log, tile).await?,
        _ => None,
    };
    match hashes.filter(is_right) {
        Some(plain) => Ok(Right {
            plain,
            from: "the journal",
        }),
        None => Err(NoSource::Beneath.into()),
    }
}

/// Finds an issuer certificate in the journal.
async fn issuer(log: &Shared, of: &Fingerprint) -> Result<Right, Failure> {
    let rounds = staged(log).await?;
    let mut issuers = rounds.into_iter().flat_map(|round| round.issuers);
    let plain = issuers.find(|der| Fingerprint::of(der) == *of);
    let plain = plain.ok_or(NoSource::Journal)?;
    let from = "the journal";
    Ok(Right { plain, from })
}

/// Returns the rounds of the journal, newest first. Some of them may never have been signed.
async fn staged(log: &Shared) -> Result<Vec<Record>, Failure> {
    let staged = log.assets.staged_now().await?;
    let rounds = staged.into_iter().rev();
    Ok(rounds
        .filter_map(|bytes| Record::parse(bytes).ok())
        .collect())
}

fn asset(file: FileId, plain: Bytes) -> Result<Asset, Failure> {
    let (bytes, kind) = match file {
        FileId::Issuer(_) => (plain, AssetKind::Issuer),
        FileId::Tile(tile) if tile.level() == Level::Data => {
            let encoding = Encoding::Gzip;
            let packed = gzip(&plain).map_err(NoSource::Coding)?;
            (packed, AssetKind::DataTile { encoding })
        }
        FileId::Tile(_) => (plain, AssetKind::HashTile),
    };
    Ok(Asset::new(file.path(), bytes, kind))
}

async fn replace(log: &Shared, right: Asset, from: &str) -> Result<(), Failure> {
    let path = right.path.clone();
    replace_damaged(&log.config, &*log.assets, right, from).await?;
    log.reader.tiles().replaced(&path).await;
    log.metrics.restored_files.inc();
    Ok(())
}
