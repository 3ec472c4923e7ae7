//! Brings the dedup index up to date from the log's own data tiles.

use std::path::Path;
use std::sync::Arc;

use lucarne_ct::{LogId, TileLeafRef};
use lucarne_storage::Assets;
use lucarne_tlog::{Level, TILE_WIDTH, Tile};
use tokio::task::spawn_blocking;

use crate::dedup::{Dedup, Place};
use crate::{Fatal, stored};

/// Opens the index of a log of `size` entries and adds what it lacks. An index
/// that is damaged, or knows more than the log has, is rebuilt; so is one that
/// turned out to be damaged later, if `rebuild` says so.
pub(crate) async fn open(
    path: &Path,
    owner: LogId,
    assets: &dyn Assets,
    size: u64,
    rebuild: bool,
) -> Result<Dedup, Fatal> {
    let at = path.to_path_buf();
    let open = move || match rebuild {
        true => Dedup::rebuild(&at, owner),
        false => usable(&at, owner, size),
    };
    let dedup = spawn_blocking(open)
        .await
        .map_err(|error| failed(path, &error))??;
    let dedup = Arc::new(dedup);
    let mut next = dedup.indexed();
    if next < size {
        tracing::info!(from = next, to = size, path = %path.display(), "dedup index: catching up");
    }
    while next < size {
        next = add_tile(&dedup, assets, next, size).await?;
        if next % (1 << 20) == 0 {
            tracing::info!(indexed = next, of = size, "dedup index: catching up");
        }
    }
    Arc::into_inner(dedup).ok_or_else(|| failed(path, &"still in use"))
}

fn usable(path: &Path, owner: LogId, size: u64) -> Result<Dedup, Fatal> {
    match Dedup::open(path, owner) {
        Ok(dedup) if dedup.indexed() <= size => Ok(dedup),
        Ok(dedup) => {
            tracing::warn!(
                path = %path.display(), indexed = dedup.indexed(), size,
                "the dedup index knows more entries than the log has: it is from another time, rebuilding it"
            );
            drop(dedup);
            Dedup::rebuild(path, owner)
        }
        Err(Fatal::Dedup {
            problem,
            damaged: true,
            ..
        }) => {
            tracing::warn!(path = %path.display(), problem, "the dedup index cannot be read, rebuilding it");
            Dedup::rebuild(path, owner)
        }
        Err(fatal) => Err(fatal),
    }
}

/// Indexes the entries from `next` to the end of their data tile.
async fn add_tile(
    dedup: &Arc<Dedup>,
    assets: &dyn Assets,
    next: u64,
    size: u64,
) -> Result<u64, Fatal> {
    let inconsistent = |problem: String| Fatal::Inconsistent(format!("dedup index: {problem}"));
    let index = next / TILE_WIDTH;
    let first = index * TILE_WIDTH;
    let end = size.min(first + TILE_WIDTH);
    let tile = Tile::new(Level::Data, index, (end - first) as u16)
        .ok_or_else(|| inconsistent(format!("no data tile holds entry {next}")))?;
    let bytes = stored::tile(assets, tile)
        .await
        .map_err(|error| inconsistent(error.to_string()))?
        .ok_or_else(|| inconsistent(format!("{} is missing", tile.path())))?;

    let mut entries = Vec::with_capacity(TILE_WIDTH as usize);
    let mut rest = bytes.as_ref();
    for expected in first..end {
        let leaf = TileLeafRef::read(&mut rest)
            .map_err(|error| inconsistent(format!("{}: {error}", tile.path())))?;
        if leaf.index != expected {
            return Err(inconsistent(format!(
                "{}: entry {} where {expected} is due",
                tile.path(),
                leaf.index
            )));
        }
        if expected >= next {
            let place = Place {
                index: expected,
                timestamp_ms: leaf.timestamp,
            };
            entries.push((leaf.identity(), place));
        }
    }
    let dedup = dedup.clone();
    spawn_blocking(move || dedup.extend(entries.into_iter(), end))
        .await
        .map_err(|error| inconsistent(error.to_string()))??;
    Ok(end)
}

fn failed(path: &Path, problem: &dyn std::fmt::Display) -> Fatal {
    Fatal::Internal(format!("dedup index {}: {problem}", path.display()))
}
