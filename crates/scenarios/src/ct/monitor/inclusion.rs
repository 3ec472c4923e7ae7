//! Inclusion of promised entries in the covering tree.

use std::collections::VecDeque;
use std::time::Instant;

use lucarne_ctread::Source;
use lucarne_tlog::{Level, TILE_WIDTH, Tile};
use parking_lot::Mutex;

use super::monitored_tree::MonitoredTree;
use crate::ct::checks::{self, CheckSink, Finding};
use crate::ct::entries;
use crate::ct::fetch::{self, FetchError};
use crate::ct::pending_scts::{PendingSct, PendingScts};

/// Checks the promises that the verified tree covers. An entry that is neither at its index nor
/// near it may still appear. The promise fails only if it is due at `now`, so the result does not
/// depend on the speed of the monitor.
///
/// # Errors
/// If the log does not respond: the remaining promises stay open.
pub(super) async fn verify(
    tree: &MonitoredTree,
    source: &dyn Source,
    pending_scts: &Mutex<PendingScts>,
    now: Instant,
    sink: &dyn CheckSink,
) -> Result<(), FetchError> {
    let mut covered: VecDeque<PendingSct> = pending_scts.lock().covered(tree.size()).into();
    while let Some(sct) = covered.front().cloned() {
        match look_up(tree, source, &sct).await {
            Ok(InclusionOutcome::Kept) => {
                kept(tree, &sct, sink);
                pending_scts.lock().resolve(&sct, true);
            }
            Ok(InclusionOutcome::Elsewhere(finding)) => {
                sink.failed(finding);
                in_time(&sct, sink);
                pending_scts.lock().resolve(&sct, false);
            }
            Ok(InclusionOutcome::Nowhere) => pending_scts.lock().defer(sct),
            Err(FetchError::Faulty(finding)) => {
                sink.failed(finding);
                in_time(&sct, sink);
                pending_scts.lock().resolve(&sct, false);
            }
            Err(unreachable) => {
                pending_scts.lock().put_back(covered);
                return Err(unreachable);
            }
        }
        covered.pop_front();
    }
    verify_deferred(tree, source, pending_scts, now, sink).await
}

/// Decides about promises that are due and not fulfilled at their index.
async fn verify_deferred(
    tree: &MonitoredTree,
    source: &dyn Source,
    pending_scts: &Mutex<PendingScts>,
    now: Instant,
    sink: &dyn CheckSink,
) -> Result<(), FetchError> {
    let mut deferred: VecDeque<PendingSct> = pending_scts.lock().take_deferred(now).into();
    while let Some(sct) = deferred.front().cloned() {
        let (index, size) = (sct.index, tree.size());
        match search(tree, source, &sct).await {
            Ok(Some(finding)) | Err(FetchError::Faulty(finding)) => sink.failed(finding),
            Ok(None) => {
                let detail = format!(
                    "the entry promised at index {index} is not at this index or near it (tree of \
                     {size})"
                );
                sink.failed(Finding::new(checks::INCLUSION_ENTRY, detail));
            }
            Err(unreachable) => {
                let mut pending_scts = pending_scts.lock();
                deferred.into_iter().for_each(|it| pending_scts.defer(it));
                return Err(unreachable);
            }
        }
        in_time(&sct, sink);
        pending_scts.lock().resolve(&sct, false);
        deferred.pop_front();
    }
    Ok(())
}

/// Records a fulfilled promise: the entry is at its index, and the covering checkpoint is not
/// older.
fn kept(tree: &MonitoredTree, sct: &PendingSct, sink: &dyn CheckSink) {
    for name in [
        checks::INCLUSION_ENTRY,
        checks::INCLUSION_INDEX,
        checks::INCLUSION_TIMESTAMP,
    ] {
        sink.passed(name);
    }
    let what = || format!("entry {}", sct.index);
    tree.not_older(sct.timestamp, what, sink);
    in_time(sct, sink);
}

async fn look_up(
    tree: &MonitoredTree,
    source: &dyn Source,
    sct: &PendingSct,
) -> Result<InclusionOutcome, FetchError> {
    let hashes = tree.tiles.hashes(source, 0, sct.index / TILE_WIDTH).await?;
    match hashes.get((sct.index % TILE_WIDTH) as usize) {
        Some(leaf) if *leaf == sct.leaf => Ok(InclusionOutcome::Kept),
        _ => Ok(match search(tree, source, sct).await? {
            Some(finding) => InclusionOutcome::Elsewhere(finding),
            None => InclusionOutcome::Nowhere,
        }),
    }
}

/// Searches the tiles around the index for an entry that is not at its promised index.
async fn search(
    tree: &MonitoredTree,
    source: &dyn Source,
    sct: &PendingSct,
) -> Result<Option<Finding>, FetchError> {
    let (index, size) = (sct.index, tree.size());
    let middle = index / TILE_WIDTH;
    for number in [middle, middle.wrapping_sub(1), middle + 1] {
        let Some(tile) = Tile::widest(Level::Data, number, size) else {
            continue;
        };
        let bytes = match fetch::tile(source, tile).await {
            Ok(bytes) => bytes,
            Err(FetchError::Faulty(_)) => continue,
            Err(unreachable) => return Err(unreachable),
        };
        let Some((place, timestamp)) = entries::find(sct, tile, &bytes) else {
            continue;
        };
        return Ok(Some(if place != index {
            let detail = format!("the entry promised at index {index} is at index {place}");
            Finding::new(checks::INCLUSION_INDEX, detail)
        } else {
            let detail = format!(
                "entry {index} was promised with timestamp {}, but has {timestamp}",
                sct.timestamp
            );
            Finding::new(checks::INCLUSION_TIMESTAMP, detail)
        }));
    }
    Ok(None)
}
/// Result of looking up a promise.
enum InclusionOutcome {
    /// The entry is at its index.
    Kept,
    /// The entry is near its index, or has another timestamp; with the finding.
    Elsewhere(Finding),
    /// The entry is neither at its index nor near it, and may still appear.
    Nowhere,
}

/// Records a promise that was covered in time.
fn in_time(sct: &PendingSct, sink: &dyn CheckSink) {
    if !sct.late {
        sink.passed(checks::INCLUSION_IN_TIME);
    }
}
