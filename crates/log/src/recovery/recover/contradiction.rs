//! Contradictions between lock, journal and storage, and the refusals that report them.
//!
//! Each contradiction means that the lock or the storage was rolled back, copied or lost, or that
//! another process signs with the key of the log. The log then signs nothing.

use lucarne_storage::{AssetError, Assets, Lock};
use lucarne_tlog::{Checkpoint, EMPTY_ROOT, Hash, Level, TILE_WIDTH, Tile};

use super::replay::base;
use super::{edge, foreign};
use crate::error::Fatal;
use crate::sequence::record::{Record, Step};
use crate::sequence::verified_checkpoint::VerifiedCheckpoint;

/// Replaces the error of missing storage. The advice of that error is meant for a log that may be
/// new; this log is not new, because the lock has signed `size` of its entries.
pub(crate) fn not_new(fatal: Fatal, size: u64, assets: &dyn Assets, lock: &dyn Lock) -> Fatal {
    match fatal {
        Fatal::Storage(error) if error.is_absence() => Fatal::Inconsistent(format!(
            "the storage ({}) does not exist, and the lock ({}) has signed {size} entries: the {} \
             deleted. Restore the newest storage; the log signs nothing until then",
            assets.location(),
            lock.location(),
            match error {
                AssetError::NoBucket { .. } => "bucket was renamed or",
                _ => "directory was moved away, is not mounted, or was",
            },
        )),
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
    Err(Fatal::Inconsistent(format!(
        "{} publishes a checkpoint of {} entries signed at {}, the lock ({}) only knows {} entries \
         signed at {}{}. The lock was rolled back, it belongs to a copy of this log, or another \
         process signs with this log's key{}: then stop that process for good. Restore the newest \
         lock database; never start the log with an older one: it would sign a fork",
        assets.location(),
        p.size,
        published.timestamp_ms,
        lock.location(),
        c.size,
        committed.timestamp_ms,
        if forked { ", with another root" } else { "" },
        foreign::perhaps(assets),
    )))
}

/// Refuses storage with a tile that is wider than the signed tree: nothing is published before
/// its commit. This shows that a lock was rolled back even if the published checkpoint, which
/// would show it as well, is lost.
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
        Some(tile) => Err(Fatal::Inconsistent(format!(
            "{} has {tile}, beyond the {size} entries that the lock ({}) knows. The lock was \
             rolled back, or it belongs to a copy of this log. Restore the newest lock database; \
             never start the log with an older one: it would sign a fork",
            assets.location(),
            lock.location(),
        ))),
    }
}

/// Refuses a journal with a round that was staged on a newer tree than the tree of the lock.
///
/// A round is staged only on a tree that the lock had at that time: the sequencer begins with the
/// tree that it recovered from the lock, and continues from a tree only after its commit. So the
/// *old* size and root of every record were in the lock once. The lock only grows; a lock that
/// has less was rolled back: a backup was restored, or a replica was promoted that had not
/// received the last commits.
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
    let other = if step.old_size == head.size {
        " with another root"
    } else {
        ""
    };
    Err(Fatal::Inconsistent(format!(
        "the journal in {} goes on from {} entries{other}, which had been signed by then, but the \
         lock ({}) only knows {}. The lock was rolled back (a backup was restored, or a replica \
         promoted that was behind), or it belongs to a copy of this log. Restore the newest lock \
         database; never start the log with an older one: it would sign a fork",
        assets.location(),
        step.old_size,
        lock.location(),
        head.size,
    )))
}

/// Returns `true` if the tree at which the step begins does not lead to this size and root.
/// That tree had been signed when the step was staged.
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
        Some((_, root)) => format!("the first {size} of them have the root {root}"),
        None if size < first => match edge::tree(assets, (size, published.checkpoint.root)).await {
            Ok(_) => return Ok(()),
            Err(edge::Problem::Away(problem)) => return Err(Fatal::Away(problem)),
            // The tiles are undamaged and belong to another tree.
            Err(edge::Problem::Tiles { problem, files }) if files.is_empty() => problem,
            Err(edge::Problem::Tiles { problem, .. }) => {
                return Err(Fatal::Inconsistent(format!(
                    "{} publishes a checkpoint of {size} entries, and whether they lead to the {} \
                     entries that the lock ({}) has signed cannot be verified: {problem}. Storage \
                     was rolled back, emptied or damaged, or another process published there: the \
                     log would sign a fork. Restore the newest storage; the log signs nothing \
                     until then",
                    assets.location(),
                    head.checkpoint.size,
                    lock.location(),
                )));
            }
        },
        None => "no round ended there".into(),
    };
    Err(Fatal::Inconsistent(format!(
        "{} publishes a checkpoint of {size} entries with the root {}, which does not lead to the \
         {} entries that the lock ({}) has signed: {problem}. Another process published there with \
         another lock, or storage belongs to a copy of this log. Find out which lock is the right \
         one; with the other lock, the log would sign a fork",
        assets.location(),
        published.checkpoint.root,
        head.checkpoint.size,
        lock.location(),
    )))
}
