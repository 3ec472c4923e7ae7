//! Contradictions between lock, journal and storage, and the refusals that report them.
//!
//! Each contradiction means that the lock or the storage was rolled back, copied or lost, or that
//! another process signs with the key of the log. The log then signs nothing.

use lucarne_storage::{AssetError, Assets, Lock};
use lucarne_tlog::{Checkpoint, EMPTY_ROOT, Hash, Level, TILE_WIDTH, Tile};

use super::replay::base;
use crate::data::record::{Record, Step};
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::inconsistency::{HistoryError, LockInconsistency, StorageInconsistency};
use crate::error::{Away, Fatal};
use crate::read::edge;

/// Replaces the error of missing storage. The advice of that error is meant for a log that may be
/// new; this log is not new, because the lock has signed `size` of its entries.
pub(crate) fn not_new(fatal: Fatal, size: u64, assets: &dyn Assets, lock: &dyn Lock) -> Fatal {
    match fatal {
        Fatal::Storage(error) if error.is_absence() => Fatal::from(StorageInconsistency::Absent {
            storage: assets.location(),
            lock: lock.location(),
            size,
            is_bucket: matches!(error, AssetError::NoBucket { .. }),
        }),
        fatal => fatal,
    }
}

/// Refuses storage that is ahead of the lock. After a crash between commit and publication,
/// storage may be older than the lock.
///
/// # Errors
/// [`Fatal::Inconsistent`].
pub(crate) fn not_newer(
    published: &VerifiedCheckpoint,
    committed: &VerifiedCheckpoint,
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<(), Fatal> {
    let (p, c) = (&published.checkpoint, &committed.checkpoint);
    let forked = p.size == c.size && p.root != c.root;
    if p.size <= c.size && published.timestamp_ms <= committed.timestamp_ms && !forked {
        return Ok(());
    }
    Err(Fatal::from(LockInconsistency::OlderThanStorage {
        storage: assets.location(),
        lock: lock.location(),
        published: published.signed_time(),
        committed: committed.signed_time(),
        forked,
        other: assets.others(),
    }))
}

/// Refuses storage with a tile that is wider than the signed tree: nothing is published before its
/// commit. This tile reveals a rolled back lock even if the published checkpoint is lost.
///
/// # Errors
/// [`Fatal::Inconsistent`], and errors of the storage.
pub(super) async fn no_tile_beyond(
    head: &VerifiedCheckpoint,
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<(), Fatal> {
    let size = head.checkpoint.size;
    let Some(next) = Tile::new(Level::Hashes(0), size / TILE_WIDTH, TILE_WIDTH as u16) else {
        return Ok(());
    };
    let path = next.path();
    let widest = assets.partials(&path).await?.last().copied();
    let beyond = match widest {
        Some(width) if u64::from(width) > size % TILE_WIDTH => Some(format!("{path}.p/{width}")),
        _ => assets.get(&path).await?.map(|_| path),
    };
    match beyond {
        None => Ok(()),
        Some(tile) => Err(Fatal::from(LockInconsistency::OlderThanTile {
            storage: assets.location(),
            tile,
            size,
            lock: lock.location(),
        })),
    }
}

/// Refuses a journal with a round that was staged on a newer tree than the tree of the lock.
///
/// A round is staged only on a tree that the lock had at that time: the sequencer begins with the
/// tree that it recovered from the lock, and continues from a tree only after its commit. So the
/// *old* size and root of every record were in the lock once. The tree in the lock only grows. A
/// lock with a smaller tree was therefore rolled back: a backup was restored, or a replica was
/// promoted that had not received the last commits.
///
/// The *new* size and root of a record prove nothing. A process may stop between stage and commit,
/// and other processes may have staged other rounds on the same tree.
///
/// # Errors
/// [`Fatal::Inconsistent`].
pub(super) fn no_round_beyond(
    head: &Checkpoint,
    records: &[Record],
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<(), Fatal> {
    let mut steps = records.iter().map(|record| &record.step);
    let refuted = steps.find(|step| is_beyond(step, (head.size, head.root)));
    let Some(step) = refuted else {
        return Ok(());
    };
    Err(Fatal::from(LockInconsistency::OlderThanJournal {
        storage: assets.location(),
        from: step.old_size,
        lock: lock.location(),
        size: head.size,
    }))
}

/// Returns `true` if the tree at which the step begins is not part of the history of the tree with
/// this size and root. The tree at which a step begins was signed before the step was staged.
pub(crate) fn is_beyond(step: &Step, (size, root): (u64, Hash)) -> bool {
    step.old_size > size || (step.old_size == size && step.old_root != root)
}

/// Refuses a published checkpoint whose tree is not a prefix of the signed tree: another process,
/// with another lock, published there.
///
/// # Errors
/// [`Fatal::Inconsistent`], [`Fatal::Away`] if storage is unavailable.
pub(super) async fn same_history(
    published: &VerifiedCheckpoint,
    head: &VerifiedCheckpoint,
    path: &[Record],
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<(), Fatal> {
    let size = published.checkpoint.size;
    let (first, root) = base(head, path);
    let rounds = path
        .iter()
        .map(|record| (record.step.new_size, record.step.new_root));
    let mut known = rounds.chain([(first, root), (0, EMPTY_ROOT)]);
    let problem = match known.find(|(known, _)| *known == size) {
        Some((_, root)) if root == published.checkpoint.root => return Ok(()),
        Some((_, root)) => HistoryError::Root { size, root },
        None if size < first => match edge::tree(assets, (size, published.checkpoint.root)).await {
            Ok(_) => return Ok(()),
            Err(edge::Problem::Away(problem)) => return Err(Away::Storage(problem).into()),
            // The tiles are undamaged and belong to another tree.
            Err(edge::Problem::Tiles { problem, files }) if files.is_empty() => {
                HistoryError::Tiles(problem)
            }
            Err(edge::Problem::Tiles { problem, .. }) => {
                return Err(Fatal::from(StorageInconsistency::Unverifiable {
                    storage: assets.location(),
                    size,
                    signed: head.checkpoint.size,
                    lock: lock.location(),
                    problem,
                }));
            }
        },
        None => HistoryError::NoRound,
    };
    Err(Fatal::from(StorageInconsistency::OtherHistory {
        storage: assets.location(),
        size,
        root: published.checkpoint.root,
        signed: head.checkpoint.size,
        lock: lock.location(),
        problem,
    }))
}
