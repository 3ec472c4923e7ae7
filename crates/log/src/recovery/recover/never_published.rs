//! A round whose checkpoint is in the lock, and that storage lost before any part of the round was
//! published.
//!
//! A failing disk can report a sync of the journal as successful and store zeros. If the round was
//! then signed and the machine stopped before the publication, the log can never open again: no
//! data lead to the tree in the lock. No client has an SCT of this round, because its checkpoint
//! was not published. The log may therefore return to the tree before the round, if storage,
//! journal and dedup index show that the round was not published, and external sources that follow
//! the log do not have it either.

use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::LogKey;
use lucarne_storage::{Assets, Lock};

use super::judge::{Judged, committed, judge};
use super::newest::newest;
use super::replay::rounds_from;
use crate::config::LogConfig;
use crate::config::signer::Signer;
use crate::data::record::Record;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::inconsistency::{LockInconsistency, SignerInconsistency, StorageInconsistency};
use crate::error::{Fatal, KnownError};
use crate::index::evidence::newest_seen;
use crate::recovery::known_checkpoints::KnownCheckpoint;
use crate::recovery::recover::Newest;
use crate::status::state::Published;

/// Maximum time between the last signature in storage and the lost signature, in addition to the
/// interval of checkpoints. Published files are not synced at once: the kernel writes them within
/// half a minute.
const MOST_APART: Duration = Duration::from_secs(60);

/// The lock must not change for the interval of checkpoints plus this time.
const QUIET: Duration = Duration::from_secs(2);

/// A checkpoint in a lock, and the earlier tree that replaces it.
pub struct NeverPublished {
    signed: VerifiedCheckpoint,
    newest: Newest,
    /// A checkpoint of the `newest` tree with the current time.
    again: VerifiedCheckpoint,
}

/// Compares the checkpoint in the lock with the newest tree of storage, journal and dedup index.
/// Writes nothing.
///
/// # Errors
/// If a separate signer signs the log, if the log has all entries of the checkpoint in the lock, if
/// newer entries are published or staged, if more than one round is lost, or if the clock is behind
/// this checkpoint. Also if storage, journal and index contradict each other or cannot be read.
pub async fn never_published(
    config: &LogConfig,
    assets: Arc<dyn Assets>,
    lock: &dyn Lock,
) -> Result<NeverPublished, Fatal> {
    let Signer::Own(key) = &config.key else {
        return Err(SignerInconsistency::SignedLostRound.into());
    };
    let signed = committed(config, lock).await?;
    let refusal = match judge(config, &*assets, lock, None).await {
        Err(Fatal::Inconsistent(problem) | Fatal::LastRound { problem, .. }) => {
            Fatal::Inconsistent(problem)
        }
        Err(error) => return Err(error),
        Ok(_) => {
            return Err(Fatal::from(LockInconsistency::NothingLost {
                storage: assets.location(),
                size: signed.checkpoint.size,
            }));
        }
    };
    let newest = newest(config, assets, &[]).await?;
    let (last_ms, size) = (newest.last_signed_ms(), newest.published().size);
    if size >= signed.checkpoint.size || last_ms > signed.timestamp_ms {
        return Err(refusal);
    }
    let apart = Duration::from_millis(signed.timestamp_ms - last_ms);
    if apart > most_apart(config) {
        return Err(StorageInconsistency::RoundsLost { size, apart }.into());
    }
    let again = sign_again(config, key, &newest, &signed)?;
    Ok(NeverPublished {
        signed,
        newest,
        again,
    })
}

/// Signs the newest tree again. Timestamps in a lock never go back.
fn sign_again(
    config: &LogConfig,
    key: &LogKey,
    newest: &Newest,
    signed: &VerifiedCheckpoint,
) -> Result<VerifiedCheckpoint, Fatal> {
    let (now_ms, tree) = (config.clock.now_ms(), newest.published());
    if now_ms <= signed.timestamp_ms {
        let behind_ms = signed.timestamp_ms - now_ms;
        return Err(Fatal::Clock { behind_ms });
    }
    let note = key.sign_checkpoint(&config.origin, tree.size, &tree.root, now_ms);
    let note = note.map_err(|error| Fatal::Sign(error.into()))?;
    VerifiedCheckpoint::verify(note.into(), config).map_err(|error| Fatal::Sign(error.into()))
}

impl NeverPublished {
    /// Returns the checkpoint in the lock.
    pub fn signed(&self) -> Published {
        self.signed.published()
    }

    /// Returns the newly signed checkpoint that will replace the checkpoint in the lock.
    pub fn again(&self) -> Published {
        self.again.published()
    }

    /// Returns `true` if an external source has the checkpoint that is published here, or a newer
    /// one. This source would also have the checkpoint of the lost round, if that was ever
    /// published.
    pub fn is_followed_by(&self, known: &KnownCheckpoint) -> bool {
        let published = &self.newest.judged.published;
        published
            .as_ref()
            .is_some_and(|published| known.timestamp_ms() >= published.timestamp_ms)
    }

    /// Compares the tree with a checkpoint of an external source.
    ///
    /// # Errors
    /// See [`KnownError`].
    pub async fn hold_against(&self, known: &KnownCheckpoint) -> Result<(), KnownError> {
        self.newest.hold_against(known).await
    }

    /// Replaces the checkpoint in the lock, unless another process, with other storage, runs the
    /// log. The function waits for the interval of checkpoints, because another process would sign
    /// within this time.
    ///
    /// # Errors
    /// If the lock has another checkpoint by then, or fails.
    pub async fn go_back(&self, config: &LogConfig, lock: &dyn Lock) -> Result<(), Fatal> {
        tokio::time::sleep(config.rounds.max_checkpoint_age + QUIET).await;
        let log_id = config.key.log_id();
        let swapped = lock.replace(&log_id.0, &self.signed.note, &self.again.note);
        Ok(swapped.await?)
    }
}

/// The longest time between the last signature in storage and a single lost signature.
fn most_apart(config: &LogConfig) -> Duration {
    config.rounds.max_checkpoint_age + MOST_APART
}

/// The last tree that storage and journal lead to.
#[derive(Clone, Copy)]
pub(super) struct Last {
    size: u64,
    /// The time of its signature in Unix milliseconds.
    timestamp_ms: u64,
}

/// Returns the tree after the journal is replayed on the published checkpoint, if there is one.
pub(super) fn last(published: Option<&VerifiedCheckpoint>, records: &[Record]) -> Option<Last> {
    let published = published?;
    let (size, timestamp_ms) = (published.checkpoint.size, published.timestamp_ms);
    let step = rounds_from(&published.checkpoint, records);
    Some(step.map_or(Last { size, timestamp_ms }, |step| Last {
        size: step.new_size,
        timestamp_ms: timestamp_ms.max(step.timestamp_ms),
    }))
}

/// Adds the remedy for a lost last round to a refusal, if storage and journal lead to fewer entries
/// than `head`. If `head` was signed much later, more rounds are lost, and the command would
/// refuse.
pub(super) fn advise(
    refusal: Fatal,
    config: &LogConfig,
    head: &VerifiedCheckpoint,
    last: Option<Last>,
) -> Fatal {
    let last = last.filter(|last| {
        let apart_ms = head.timestamp_ms.saturating_sub(last.timestamp_ms);
        last.size < head.checkpoint.size && Duration::from_millis(apart_ms) <= most_apart(config)
    });
    match (refusal, last) {
        (Fatal::Inconsistent(problem), Some(last)) => Fatal::LastRound {
            problem,
            there: last.size,
        },
        (refusal, _) => refusal,
    }
}

/// Removes the remedy from a refusal if the dedup index has more entries than storage and journal:
/// the lost entries were published, and the command would refuse. An index that another process has
/// open proves nothing.
pub(super) async fn unless_indexed(
    judged: Result<Judged, Fatal>,
    config: &LogConfig,
) -> Result<Judged, Fatal> {
    let (problem, there) = match judged {
        Err(Fatal::LastRound { problem, there }) => (problem, there),
        judged => return judged,
    };
    match newest_seen(config).await {
        Ok(Some(seen)) if seen.size > there => Err(Fatal::Inconsistent(problem)),
        _ => Err(Fatal::LastRound { problem, there }),
    }
}
