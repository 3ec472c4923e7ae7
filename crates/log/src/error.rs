//! The errors for submitters, clients that read, and operators.

mod away;
mod dedup_error;
pub(crate) mod inconsistency;
mod read_error;
mod record_error;
mod sign_error;
mod verify_error;

use lucarne_ct::Rejection;
use lucarne_tlog::Hash;

use self::inconsistency::Inconsistency;
use crate::config::lane::Lane;

pub use self::away::{Away, FollowedTileError};
pub use self::dedup_error::DedupError;
pub use self::read_error::{ReadError, ReadFailure};
pub use self::record_error::RecordError;
pub use self::sign_error::SignError;
pub use self::verify_error::{EntryError, VerifyError};

/// The reasons why a submission gets no SCT.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SubmitError {
    /// The chain is not acceptable; a retry with the same chain fails as well (400).
    #[error("{0}")]
    Rejected(Rejection),
    /// The submission's lane has no room (503 with Retry-After).
    #[error("{}; retry in {retry_after_seconds} s", full(*.lane))]
    Full {
        /// The lane that is full.
        lane: Lane,
        /// The time until there is room again, rounded up: after the rounds that take the waiting
        /// entries, or when the lane's rate allows another entry.
        retry_after_seconds: u32,
    },
    /// The log is starting, or an error has stopped it (503 with Retry-After). The entry may or may
    /// not be in the log: a retry gets the same SCT.
    #[error("{reason}; retry in {retry_after_seconds} s")]
    Unavailable {
        /// The time after which the client may retry.
        retry_after_seconds: u32,
        /// The reason, suitable for publication.
        reason: String,
    },
    /// The shard is retired (410).
    #[error("this log is retired and accepts no more submissions")]
    Gone,
}

/// The reasons why a log cannot be opened, or had to stop. Other logs of the process continue.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] lucarne_storage::AssetError),
    /// The lock failed.
    #[error(transparent)]
    Lock(#[from] lucarne_storage::LockError),
    /// Storage did not respond to a read.
    #[error(transparent)]
    Away(Away),
    /// The dedup index failed.
    #[error("dedup index {path}: {problem}")]
    Dedup {
        /// Directory of the index.
        path: String,
        /// The problem with the index.
        problem: DedupError,
        /// Whether the files of the index are damaged; the log then rebuilds the index.
        damaged: bool,
        /// Whether another process has the index open.
        in_use: bool,
    },
    /// The lock has no log with this key.
    #[error(
        "{lock} holds no log with ID {log_id} ({name}): create it with `lucarne init`, or look for a wrong key, or a wrong lock"
    )]
    NotCreated {
        /// Location of the lock.
        lock: String,
        /// The log's ID, base64.
        log_id: String,
        /// The log's short name.
        name: String,
    },
    /// Lock, journal and storage contradict each other.
    #[error(transparent)]
    Inconsistent(Box<Inconsistency>),
    /// Storage and journal end before the signed tree. Perhaps only the last round is lost.
    #[error(
        "{problem}. Storage and journal end with {there} entries: if a failing disk has lost the \
         last round before any of it was published, `lucarne lock rebuild --never-published` \
         shows that and goes back to them"
    )]
    LastRound {
        /// The contradiction.
        problem: Box<Inconsistency>,
        /// Number of entries that storage and journal lead to.
        there: u64,
    },
    /// This log has signed a checkpoint that an external source has, and that is missing here.
    #[error(transparent)]
    Known(#[from] KnownError),
    /// The verification before signing failed: nothing was signed.
    #[error(
        "verification before signing failed: {0}; nothing was signed, and the round was discarded"
    )]
    Verify(VerifyError),
    /// A task panicked: a defect of Lucarne.
    #[error("internal error: {0}; the log recovers from its journal. Please report it")]
    Internal(String),
    /// Signing failed.
    #[error("signing failed: {0}")]
    Sign(SignError),
    /// The external signer does not sign.
    #[error(transparent)]
    Signer(#[from] lucarne_signer::ClientError),
    /// The clock has jumped forward.
    #[error(
        "the clock jumped {ahead_ms} ms ahead of the time that has passed since the last round: \
         nothing is signed until the clock is correct. If it was wrong, correct it, and the log \
         continues. If it is right now, the log continues after a minute or, if the jump is longer \
         than a day, after a restart with `--confirm-clock`"
    )]
    Jumped {
        /// The size of the jump in milliseconds.
        ahead_ms: u64,
    },
    /// The log's last signature is so old that the clock may be wrong.
    #[error(
        "the clock is more than {days} days after the last signed checkpoint: a checkpoint that is signed ahead of its time would stop the log until then. If the clock is wrong, correct it; if the log was down for so long, start it with `lucarne serve --confirm-clock` and today's date (UTC, as 2026-07-01)"
    )]
    Unconfirmed {
        /// Age of the last checkpoint in whole days.
        days: u64,
    },
    /// Another instance leads this log now.
    #[error("{}", deposed(.by))]
    Deposed {
        /// The address of the other instance, if known.
        by: Option<String>,
    },
    /// The clock is too far behind the log's own timestamps.
    #[error(
        "the clock is {behind_ms} ms behind the last signed timestamp: correct it; the log \
         continues when it has caught up"
    )]
    Clock {
        /// The difference in milliseconds.
        behind_ms: u64,
    },
}

impl Fatal {
    /// Returns whether the error is a finding about the log itself, not a failure to read the log.
    pub fn is_verdict(&self) -> bool {
        use lucarne_storage::AssetError;
        matches!(
            self,
            Self::Inconsistent(_)
                | Self::LastRound { .. }
                | Self::NotCreated { .. }
                | Self::Known(_)
                | Self::Storage(AssetError::Damaged { .. })
        )
    }

    /// Returns whether another process has the log's dedup index open, and so runs the log.
    pub fn is_index_in_use(&self) -> bool {
        matches!(self, Self::Dedup { in_use: true, .. })
    }

    /// Returns whether another instance has advanced the log. With several instances, this instance
    /// then follows the other; this is not a fault.
    pub(crate) fn is_overtaken(&self) -> bool {
        use lucarne_storage::{AssetError, LockError};
        matches!(
            self,
            Self::Deposed { .. }
                | Self::Lock(LockError::Conflict { found: Some(_), .. })
                | Self::Storage(
                    AssetError::Overtaken { .. } | AssetError::CheckpointMissing { .. }
                )
        )
    }

    /// Returns whether the error ends when a store, a server or a disk is available again, or after
    /// an operator has freed space on it or made it writable.
    pub fn is_passing(&self) -> bool {
        use lucarne_storage::{AssetError, LockError};
        matches!(self, Self::Signer(error) if error.is_passing())
            || matches!(
                self,
                Self::Away(_)
                    | Self::Storage(
                        AssetError::Unavailable { .. }
                            | AssetError::Silent { .. }
                            | AssetError::Full { .. }
                            | AssetError::ReadOnly { .. }
                    )
                    | Self::Lock(LockError::Failed { .. })
            )
    }
}

fn full(lane: Lane) -> &'static str {
    match lane {
        Lane::Fresh => "the pool is full",
        Lane::Old => {
            "too many old certificates, or certificates with SCTs, are pending: fresh ones have \
             priority"
        }
    }
}

fn deposed(by: &Option<String>) -> String {
    match by {
        Some(address) => format!("the instance at {address} leads this log now"),
        None => "another instance leads this log now".into(),
    }
}

/// The reasons why the log does not match a known checkpoint. Each text ends with a stable code.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KnownError {
    /// The known checkpoint has more entries than the log here.
    #[error(
        "{place} has a checkpoint of {known} entries, signed at {timestamp_ms} with this log's \
         key, and lock, journal and storage here have {here}: all of them were rolled back, or \
         this is a copy. Restore the newest ones; never start the log with older ones: it would \
         sign a fork (known_checkpoint_newer)"
    )]
    Newer {
        /// The source of the checkpoint.
        place: String,
        /// The number of entries in the checkpoint.
        known: u64,
        /// The time of the signature in Unix milliseconds.
        timestamp_ms: u64,
        /// The number of entries that are signed here.
        here: u64,
    },
    /// The known checkpoint belongs to another history than the log here.
    #[error(
        "{place} has a checkpoint of {known} entries with the root {root}, signed at \
         {timestamp_ms} with this log's key, and {here}: this key has signed two histories, or \
         lock and storage here belong to a copy of this log. Find out which is the right one; the \
         log signs nothing until then (known_checkpoint_fork)"
    )]
    Fork {
        /// The source of the checkpoint.
        place: String,
        /// The number of entries in the checkpoint.
        known: u64,
        /// The root hash of the checkpoint.
        root: Hash,
        /// The time of the signature in Unix milliseconds.
        timestamp_ms: u64,
        /// The history that is here instead.
        here: HistoryHere,
    },
    /// Unreadable tiles prevent the comparison with the known checkpoint.
    #[error(
        "cannot verify that this log begins with the {known} entries of the checkpoint in {place}: \
         {problem} (known_checkpoint_untold)"
    )]
    Untold {
        /// The source of the checkpoint.
        place: String,
        /// The number of entries in the checkpoint.
        known: u64,
        /// The problem with the tiles.
        problem: ReadError,
    },
}

/// The history of a log that does not have the tree of a known checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryHere {
    /// The tree of this size had another root.
    #[error("the first {size} entries here have the root {root}")]
    Root {
        /// Number of entries.
        size: u64,
        /// Root of these entries.
        root: Hash,
    },
    /// No tree had this size.
    #[error("no round here ended with {size} entries")]
    NoRound {
        /// Number of entries.
        size: u64,
    },
}

impl KnownError {
    /// Returns whether the error prevents the log's start. A damaged tile does not prevent the
    /// start, but clients that read the tile get the error.
    pub fn refuses(&self) -> bool {
        !matches!(self, KnownError::Untold { .. })
    }
}
