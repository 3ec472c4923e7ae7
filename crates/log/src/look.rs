//! A look at lock, journal and storage, for whoever does not run the log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lucarne_ct::{CheckpointError, verify_checkpoint};
use lucarne_storage::{Assets, Lock};
use lucarne_tlog::{Checkpoint, Hash, SignedNote};
use tokio::time::Instant;

use crate::KnownError;
use crate::known::KnownCheckpoint;
use crate::recover::{self, Judged, is_beyond, steps_to};
use crate::{Fatal, LogConfig, Step};

/// The time for a log that is looked at while it signs: what seems wrong is looked
/// at again as long as the lock goes on.
const LOOKING: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// A checkpoint as it was found somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Size and root that it says, if it is a checkpoint at all.
    pub head: Option<(u64, Hash)>,
    /// The time of the signature, in Unix milliseconds; or the reason why the checkpoint is not
    /// one of this log.
    pub signed: Result<u64, CheckpointError>,
}

impl Found {
    /// Reads a note that may be a checkpoint of this log.
    pub fn read(note: &[u8], config: &LogConfig) -> Found {
        let parsed = SignedNote::parse(note).ok();
        let parsed = parsed.and_then(|note| Checkpoint::parse(&note.text).ok());
        let verified = verify_checkpoint(note, &config.origin, config.key.public_key_spki());
        Found {
            head: parsed.map(|parsed| (parsed.size, parsed.root)),
            signed: verified.map(|(_, timestamp_ms)| timestamp_ms),
        }
    }

    /// Returns size and root, if the signature is the log's.
    pub fn verified(&self) -> Option<(u64, Hash)> {
        self.head.filter(|_| self.signed.is_ok())
    }
}

/// A log as lock, journal and storage have it.
#[derive(Clone, Debug)]
pub struct Looked {
    /// The checkpoint in the lock.
    pub lock: Option<Found>,
    /// The published one.
    pub published: Option<Found>,
    /// The rounds of the journal that lead from the published one to that of the lock.
    pub bridge: Vec<Step>,
    /// The words with which the log's start would be refused.
    pub refusal: Option<String>,
}

/// See [`Log::look`](crate::Log::look).
pub(crate) async fn look(
    config: &LogConfig,
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<Looked, Fatal> {
    match steadily(config, assets, lock).await? {
        Ok(judged) => sound(config, assets, judged).await,
        Err((held, fatal)) => Ok(Looked {
            lock: held.map(|note| Found::read(&note, config)),
            published: published(config, assets).await?,
            bridge: Vec::new(),
            refusal: Some(fatal.to_string()),
        }),
    }
}

/// See [`Log::hold_against`](crate::Log::hold_against). What is known was asked for
/// before, so that a log that goes on knows it.
pub(crate) async fn hold_against(
    config: &LogConfig,
    assets: Arc<dyn Assets>,
    lock: &dyn Lock,
    known: &[KnownCheckpoint],
) -> Result<Vec<KnownError>, Fatal> {
    let judged = steadily(config, &*assets, lock).await?;
    let judged = judged.map_err(|(_, fatal)| fatal)?;
    let history = judged.history(assets);
    let mut against = Vec::new();
    for known in known {
        against.extend(history.hold_against(known).await.err());
    }
    Ok(against)
}

/// The note that the lock held, and what is wrong with that.
type Refused = (Option<Vec<u8>>, Fatal);

/// Judges a log that may sign meanwhile.
async fn steadily(
    config: &LogConfig,
    assets: &dyn Assets,
    lock: &dyn Lock,
) -> Result<Result<Judged, Refused>, Fatal> {
    let log_id = config.key.log_id().0;
    let end = Instant::now() + LOOKING;
    loop {
        let held = lock.load(&log_id).await?;
        let fatal = match recover::judge(config, assets, lock, None).await {
            Ok(judged) => return Ok(Ok(judged)),
            Err(fatal) if !fatal.is_verdict() => return Err(fatal),
            Err(fatal) => fatal,
        };
        // A log that goes on is not wrong: its parts were read one after the other.
        if lock.load(&log_id).await? == held {
            return Ok(Err((held, fatal)));
        }
        if Instant::now() > end {
            return Err(Fatal::Away(
                "the log signs faster than it can be looked at: look again".into(),
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn sound(config: &LogConfig, assets: &dyn Assets, judged: Judged) -> Result<Looked, Fatal> {
    let published = match &judged.published {
        Some(published) => Some(Found::read(&published.note, config)),
        // Absent, or damaged: the next start puts the lock's there.
        None => published(config, assets).await?,
    };
    let from = judged
        .published
        .map_or(0, |published| published.checkpoint.size);
    let steps = judged.path.iter().map(|record| record.step);
    Ok(Looked {
        lock: Some(Found::read(&judged.head.note, config)),
        published,
        bridge: steps.filter(|step| step.new_size > from).collect(),
        refusal: None,
    })
}

async fn published(config: &LogConfig, assets: &dyn Assets) -> Result<Option<Found>, Fatal> {
    let note: Option<Bytes> = match assets.get("checkpoint").await {
        Err(error) if error.is_absence() => None,
        note => note?,
    };
    Ok(note.map(|note| Found::read(&note, config)))
}

/// The standing of a round of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The published checkpoint covers it.
    Published,
    /// The lock has signed it, and it is still to be published.
    Signed,
    /// Staged upon the signed tree: it is just being signed, or never was.
    Staged,
    /// Not larger than the published tree, and nothing else of the journal took its place: a
    /// recovery needs it no more.
    Covered,
    /// Leads to nothing that was signed: a recovery passes it over.
    PassedOver,
    /// Goes on from a tree that the lock does not know: the lock is not the newest.
    Beyond,
}

/// Judges the rounds of a journal, oldest first, by what the lock has signed and
/// what is published.
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
    let judge = |(step, on_path): (&Step, bool)| match on_path {
        true if step.new_size <= published => Standing::Published,
        true => Standing::Signed,
        false if is_beyond(step, signed) => Standing::Beyond,
        false if (step.old_size, step.old_root) == signed => Standing::Staged,
        false if step.new_size <= published && !replaced(step) => Standing::Covered,
        false => Standing::PassedOver,
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
            // Staged, and then another one upon the same tree.
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
        // One round between cannot be read: those before it are published all the same.
        let steps = [steps[0], steps[1], steps[3]];
        let found = standings(&steps, head(7), head(7));
        assert_eq!(found, [Covered, Covered, Published]);
    }
}
