//! Inspection of lock, journal and storage by a process that does not run the log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lucarne_ct::{CheckpointError, verify_checkpoint};
use lucarne_storage::{Assets, Lease, LeaseError, Lock};
use lucarne_tlog::{Checkpoint, Hash, SignedNote};
use tokio::time::Instant;

use crate::config::LogConfig;
use crate::data::record::Step;
use crate::error::{Away, Fatal, KnownError};
use crate::recovery::known_checkpoints::KnownCheckpoint;
use crate::recovery::recover::{self, Judged, is_beyond, steps_to};

/// Time limit for the inspection of a log that signs concurrently. An apparent error is checked
/// again as long as the lock changes.
const LOOKING: Duration = Duration::from_secs(10);
/// Pause between two inspections.
const PAUSE: Duration = Duration::from_millis(10);

/// A checkpoint from the lock or from storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCheckpoint {
    /// Size and root in the text of the note; `None` if the note is not a checkpoint.
    pub head: Option<(u64, Hash)>,
    /// The timestamp of the signature in Unix milliseconds, or the reason why the note is not a
    /// checkpoint of this log.
    pub signed: Result<u64, CheckpointError>,
}

impl FoundCheckpoint {
    /// Parses a note that may be a checkpoint of this log.
    pub fn read(note: &[u8], config: &LogConfig) -> FoundCheckpoint {
        let parsed = SignedNote::parse(note).ok();
        let parsed = parsed.and_then(|note| Checkpoint::parse(&note.text).ok());
        let verified = verify_checkpoint(note, &config.origin, config.key.public_key_spki());
        FoundCheckpoint {
            head: parsed.map(|parsed| (parsed.size, parsed.root)),
            signed: verified.map(|(_, timestamp_ms)| timestamp_ms),
        }
    }

    /// Returns size and root; `None` if the note has no valid signature of the log.
    pub fn verified(&self) -> Option<(u64, Hash)> {
        self.head.filter(|_| self.signed.is_ok())
    }
}

/// The state of a log in lock, journal and storage.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// The checkpoint in the lock.
    pub lock: Option<FoundCheckpoint>,
    /// The published checkpoint.
    pub published: Option<FoundCheckpoint>,
    /// The rounds of the journal from the published checkpoint to the checkpoint in the lock.
    pub bridge: Vec<Step>,
    /// The error with which the log's start would fail; `None` if the log would start.
    pub refusal: Option<String>,
    /// The reason why the newest commits of the lock may be missing.
    pub doubt: Option<String>,
    /// The lease of the log, or the reason why it cannot be read; `None` if the log never had
    /// several instances.
    pub lease: Option<Result<Lease, String>>,
}

/// Compares lock, journal and storage like the start of a log, concurrently with a process that
/// may run the log, and writes nothing. The dedup index is not read, because it belongs to that
/// process.
///
/// # Errors
/// If lock, journal or storage cannot be read now, or if the lock changes again and again during
/// the inspection.
pub async fn inspect(
    config: &LogConfig,
    assets: &Arc<dyn Assets>,
    lock: &dyn Lock,
) -> Result<Inspection, Fatal> {
    let mut inspection = match steadily(config, assets, lock).await? {
        Ok(judged) => sound(config, &**assets, judged).await?,
        Err((held, fatal)) => Inspection {
            lock: held.map(|note| FoundCheckpoint::read(&note, config)),
            published: published(config, &**assets).await?,
            refusal: Some(fatal.to_string()),
            ..Inspection::default()
        },
    };
    inspection.doubt = lock.doubt();
    inspection.lease = match Lease::load(lock, &config.key.log_id().0).await {
        Ok(lease) => lease.map(Ok),
        Err(LeaseError::Lock(error)) => return Err(error.into()),
        Err(error) => Some(Err(error.to_string())),
    };
    Ok(inspection)
}

/// Compares lock, journal and storage with external checkpoints, concurrently with a process that
/// may run the log. Returns the contradictions. The caller fetched the known checkpoints before
/// this call, so the tree that this function reads must include them.
///
/// # Errors
/// If lock, journal and storage contradict each other, or one of them cannot be read now.
pub async fn hold_against(
    config: &LogConfig,
    assets: Arc<dyn Assets>,
    lock: &dyn Lock,
    known: &[KnownCheckpoint],
) -> Result<Vec<KnownError>, Fatal> {
    let judged = steadily(config, &assets, lock).await?;
    let judged = judged.map_err(|(_, fatal)| fatal)?;
    let history = judged.history(assets);
    let mut against = Vec::new();
    for known in known {
        against.extend(history.hold_against(known).await.err());
    }
    Ok(against)
}

/// The note in the lock, and the problem with the log.
type Refused = (Option<Vec<u8>>, Fatal);

/// Examines a log that may sign concurrently.
async fn steadily(
    config: &LogConfig,
    assets: &Arc<dyn Assets>,
    lock: &dyn Lock,
) -> Result<Result<Judged, Refused>, Fatal> {
    let log_id = config.key.log_id().0;
    let end = Instant::now() + LOOKING;
    loop {
        let held = lock.load(&log_id).await?;
        let fatal = match recover::judge_whole(config, assets, lock, None).await {
            Ok(judged) => return Ok(Ok(judged)),
            Err(fatal) if !fatal.is_verdict() => return Err(fatal),
            Err(fatal) => fatal,
        };
        // Lock, journal and storage were read one after the other, so a change of the lock in
        // between is not an error.
        if lock.load(&log_id).await? == held {
            return Ok(Err((held, fatal)));
        }
        if Instant::now() > end {
            return Err(Away::Changing.into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn sound(
    config: &LogConfig,
    assets: &dyn Assets,
    judged: Judged,
) -> Result<Inspection, Fatal> {
    let published = match &judged.published {
        Some(published) => Some(FoundCheckpoint::read(&published.note, config)),
        // The checkpoint is missing or damaged: the next start publishes the checkpoint from the
        // lock.
        None => published(config, assets).await?,
    };
    let from = judged
        .published
        .map_or(0, |published| published.checkpoint.size);
    let steps = judged.path.iter().map(|record| record.step);
    Ok(Inspection {
        lock: Some(FoundCheckpoint::read(&judged.head.note, config)),
        published,
        bridge: steps.filter(|step| step.new_size > from).collect(),
        ..Inspection::default()
    })
}

async fn published(
    config: &LogConfig,
    assets: &dyn Assets,
) -> Result<Option<FoundCheckpoint>, Fatal> {
    let note: Option<Bytes> = match assets.get("checkpoint").await {
        Err(error) if error.is_absence() => None,
        note => note?,
    };
    Ok(note.map(|note| FoundCheckpoint::read(&note, config)))
}

/// The state of a round of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The published checkpoint includes the round.
    Published,
    /// The checkpoint in the lock includes the round, and the published checkpoint does not.
    Signed,
    /// The round continues the tree of the lock: the round is being signed, or was never signed.
    Staged,
    /// The round ends within the published tree, and no other round of the journal replaced it:
    /// recovery does not need the round.
    Covered,
    /// The round does not lead to the tree of the lock: recovery skips the round.
    PassedOver,
    /// The round continues a tree that is newer than the lock: the checkpoint in the lock is not
    /// the newest.
    Beyond,
}

/// Determines the state of the rounds of a journal, oldest first, from the signed and the published
/// tree.
pub fn standings(
    steps: &[Step],
    signed: Option<(u64, Hash)>,
    published: Option<(u64, Hash)>,
) -> Vec<Standing> {
    let Some(signed) = signed else {
        return vec![Standing::Beyond; steps.len()];
    };
    let published = published.map_or(0, |(size, _)| size);
    let on_path = steps_to(signed, steps);
    let happened = steps.iter().zip(&on_path).filter(|(_, on_path)| **on_path);
    let happened: Vec<&Step> = happened.map(|(step, _)| step).collect();
    let replaced = |step: &Step| {
        let overlaps = |by: &&Step| by.old_size < step.new_size && step.old_size < by.new_size;
        happened.iter().any(overlaps)
    };
    let judge = |(step, on_path): (&Step, bool)| {
        if on_path && step.new_size <= published {
            Standing::Published
        } else if on_path {
            Standing::Signed
        } else if is_beyond(step, signed) {
            Standing::Beyond
        } else if (step.old_size, step.old_root) == signed {
            Standing::Staged
        } else if step.new_size <= published && !replaced(step) {
            Standing::Covered
        } else {
            Standing::PassedOver
        }
    };
    steps
        .iter()
        .zip(on_path.iter().copied())
        .map(judge)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(old: (u64, u8), new: (u64, u8)) -> Step {
        Step {
            old_size: old.0,
            new_size: new.0,
            timestamp_ms: 0,
            old_root: Hash([old.1; 32]),
            new_root: Hash([new.1; 32]),
        }
    }

    #[test]
    fn rounds_stand_where_lock_and_checkpoint_put_them() {
        use Standing::{Beyond, Covered, PassedOver, Published, Signed, Staged};
        let steps = [
            step((0, 0), (2, 2)),
            // Two rounds were staged on the same tree.
            step((2, 2), (4, 9)),
            step((2, 2), (4, 4)),
            step((4, 4), (7, 7)),
            step((7, 7), (8, 8)),
        ];
        let head = |size: u8| Some((u64::from(size), Hash([size; 32])));
        let found = |signed, published| standings(&steps, signed, published);
        assert_eq!(
            found(head(7), head(4)),
            [Published, PassedOver, Published, Signed, Staged]
        );
        assert_eq!(
            found(head(4), head(2)),
            [Published, PassedOver, Signed, Staged, Beyond]
        );
        assert_eq!(
            found(Some((4, Hash([9; 32]))), head(2))[2..],
            [PassedOver, Beyond, Beyond]
        );
        assert_eq!(found(None, None), [Beyond; 5]);
        // A round is unreadable. The published tree still covers the earlier rounds.
        let steps = [steps[0], steps[1], steps[3]];
        let found = standings(&steps, head(7), head(7));
        assert_eq!(found, [Covered, Covered, Published]);
    }
}
