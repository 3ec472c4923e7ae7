//! The history of an index: no index is used with another log, or with a log that was rolled back.

use std::path::Path;
use std::sync::Arc;

use lucarne_storage::{Assets, Lock};
use tokio::task::spawn_blocking;

use super::source::Source;
use crate::config::LogConfig;
use crate::data::tree::{Tree, TreeHead};
use crate::error::inconsistency::{IndexInconsistency, IndexSeen};
use crate::error::{Away, Fatal, ReadError};
use crate::index::dedup::{Dedup, Unusable, last_seen};
use crate::index::evidence;
use crate::index::log_index::LogIndex;
use crate::read::damaged_files::DamagedFiles;
use crate::read::read_cache::read_cache;
use crate::read::verified_tiles::VerifiedTiles;

/// Bytes of tiles that an examination keeps in memory.
const KEPT: u64 = 1 << 20;

async fn anew(log: &LogIndex) -> Result<Dedup, Fatal> {
    let (path, owner) = (log.config.cache.clone(), log.config.key.log_id());
    let made = spawn_blocking(move || Dedup::rebuild(&path, owner)).await;
    let made = made.map_err(|error| failed(&log.config.cache, &error))??;
    log.set_failed(false);
    Ok(made)
}

/// Opens the index, if it belongs to this history and has not failed; else sets it aside and
/// rebuilds it. The newest tree of the index is compared with the log in any case, before the index
/// is set aside.
pub(super) async fn usable(log: &LogIndex, source: &Source<'_>) -> Result<Dedup, Fatal> {
    let problem = match judged(&log.config, &*log.lock, source).await? {
        Ok(dedup) if !log.has_failed() => return Ok(dedup),
        Ok(dedup) => {
            close(dedup).await;
            Unusable::Failed
        }
        Err(unusable) => unusable,
    };
    let (path, problem) = (log.config.cache.display(), problem.to_string());
    tracing::warn!(%path, problem, "the dedup index cannot be used");
    anew(log).await
}

/// Closes an index on another thread, because closing waits for the disk.
async fn close(dedup: Dedup) {
    let _ = spawn_blocking(move || drop(dedup)).await;
}

/// Compares the index, if there is one, with the log: `tree` is the tree in storage, and `signed`
/// the number of signed entries. Writes nothing. If the index has more entries than storage, but
/// not more than `signed`, the histories cannot be compared before the journal is published: the
/// function then reports no error.
///
/// # Errors
/// See [`open`](super::open).
pub(crate) async fn examine(
    config: &LogConfig,
    lock: &dyn Lock,
    assets: Arc<dyn Assets>,
    tree: &Tree,
    signed: u64,
) -> Result<(), Fatal> {
    let seen = match evidence::newest_seen(config).await {
        Ok(Some(seen)) => seen,
        Ok(None) | Err(Fatal::Dedup { damaged: true, .. }) => return Ok(()),
        Err(fatal) => return Err(fatal),
    };
    if seen.size > signed {
        return Err(rolled_back(config, lock, seen.size, signed));
    }
    if seen.size > tree.size() {
        return Ok(());
    }
    let verified =
        VerifiedTiles::of_store(assets.clone(), read_cache(KEPT), DamagedFiles::default());
    let source = Source::new(&*assets, &verified, tree);
    same_history(config, lock, seen, &source).await
}

/// Returns the index, if it belongs to this history of the log; or the reason to rebuild it.
async fn judged(
    config: &LogConfig,
    lock: &dyn Lock,
    source: &Source<'_>,
) -> Result<Result<Dedup, Unusable>, Fatal> {
    let (path, owner) = (config.cache.clone(), config.key.log_id());
    let opened = spawn_blocking(move || {
        let opened = Dedup::open(&path, owner);
        let seen = opened.is_err().then(|| last_seen(&path));
        (opened, seen.flatten())
    });
    let (opened, seen) = opened
        .await
        .map_err(|error| failed(&config.cache, &error))?;
    match opened {
        Ok(dedup) => {
            same_history(config, lock, dedup.anchor().head, source).await?;
            if !dedup.is_distrusted() {
                return Ok(Ok(dedup));
            }
            close(dedup).await;
            Ok(Err(Unusable::Distrusted))
        }
        Err(Fatal::Dedup {
            problem,
            damaged: true,
            ..
        }) => {
            if let Some(head) = seen {
                same_history(config, lock, head, source).await?;
            }
            Ok(Err(Unusable::Damaged(problem)))
        }
        Err(fatal) => Err(fatal),
    }
}

/// Returns the error for an index of more entries than the log. The index records a tree only after
/// the tree was committed, so the log has lost entries.
fn rolled_back(config: &LogConfig, lock: &dyn Lock, seen: u64, size: u64) -> Fatal {
    Fatal::from(IndexInconsistency::Newer {
        seen: IndexSeen {
            path: config.cache.clone(),
            entries: seen,
        },
        lock: lock.location(),
        size,
    })
}

/// Checks that the signed tree begins with the tree of the index.
async fn same_history(
    config: &LogConfig,
    lock: &dyn Lock,
    indexed: TreeHead,
    source: &Source<'_>,
) -> Result<(), Fatal> {
    if indexed.size > source.tree.size() {
        return Err(rolled_back(config, lock, indexed.size, source.tree.size()));
    }
    let path = config.cache.clone();
    let root = source
        .verified
        .root_at(&source.tree.edge, indexed.size)
        .await;
    let signed_root = root.map_err(|error| match error {
        error @ (ReadError::Unavailable(_) | ReadError::Storage(_)) => Away::Read(error).into(),
        problem => Fatal::from(IndexInconsistency::Unverifiable {
            path: path.clone(),
            problem,
            storage: source.assets.location(),
        }),
    })?;
    if signed_root == indexed.root {
        return Ok(());
    }
    Err(Fatal::from(IndexInconsistency::OtherHistory {
        path,
        size: indexed.size,
        root: indexed.root,
        lock: lock.location(),
        signed_root,
    }))
}

fn failed(path: &Path, problem: &dyn std::fmt::Display) -> Fatal {
    Fatal::Internal(format!("dedup index {}: {problem}", path.display()))
}
