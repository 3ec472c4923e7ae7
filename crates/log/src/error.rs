//! The errors, for the submitter, the reader and the operator.

use lucarne_ct::Rejection;
use lucarne_tlog::Hash;

use crate::lane::Lane;
use crate::verify::VerifyError;

/// The reasons why a submission got no SCT.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SubmitError {
    /// The chain is not acceptable, and never will be as it is (400).
    #[error("{0}")]
    Rejected(Rejection),
    /// Its lane has no room (503 with Retry-After).
    #[error("{}; come back in {retry_after_seconds} s", full(*.lane))]
    Full {
        /// The lane.
        lane: Lane,
        /// The time after which there is room again, rounded up: when a round has taken those that
        /// wait before, or the lane's rate allows one more.
        retry_after_seconds: u32,
    },
    /// The log is starting, or stopped by an error (503 with Retry-After).
    /// The entry may or may not be in the log: a retry gets the same SCT.
    #[error("{reason}; come back in {retry_after_seconds} s")]
    Unavailable {
        /// The time when to come back.
        retry_after_seconds: u32,
        /// In words fit for the public.
        reason: String,
    },
    /// The shard is retired (410).
    #[error("this log is retired and takes no more submissions")]
    Gone,
}

/// The reasons why a read got no answer. Absence is not an error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The storage failed.
    #[error("{0}")]
    Storage(String),
    /// The storage does not answer now: the same read may succeed later.
    #[error("{0}")]
    Unavailable(String),
    /// The stored bytes are not what the log wrote.
    #[error("{path}: {problem}")]
    Damaged {
        /// The asset's path.
        path: String,
        /// The problem with it.
        problem: String,
    },
}

/// The reasons why a log cannot be opened, or had to stop. Fatal to this log alone.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] lucarne_storage::AssetError),
    /// The lock failed.
    #[error(transparent)]
    Lock(#[from] lucarne_storage::LockError),
    /// Storage that was being read does not answer.
    #[error("{0}")]
    Away(String),
    /// The dedup index failed.
    #[error("dedup index {path}: {problem}")]
    Dedup {
        /// Its directory.
        path: String,
        /// The problem with it.
        problem: String,
        /// True if its files are not what was written: it is rebuilt then.
        damaged: bool,
        /// True if another process has it open.
        in_use: bool,
    },
    /// There is no log of this key in the lock.
    #[error(
        "{lock} holds no log with ID {log_id} ({name}): create it with `lucarne init`, or look for a wrong key, or a wrong lock"
    )]
    NotCreated {
        /// The place of the lock.
        lock: String,
        /// The log's ID, base64.
        log_id: String,
        /// The log's short name.
        name: String,
    },
    /// Lock, journal and storage contradict each other.
    #[error("{0}")]
    Inconsistent(String),
    /// This log has signed something that is known outside, and is not here.
    #[error(transparent)]
    Known(#[from] KnownError),
    /// Verify-before-sign failed: nothing was signed.
    #[error(
        "verification before signing failed: {0}; nothing was signed, the round never happened"
    )]
    Verify(VerifyError),
    /// A task panicked: a defect of Lucarne.
    #[error("internal error: {0}; the log recovers from its journal. Please report it")]
    Internal(String),
    /// Signing failed.
    #[error("signing failed: {0}")]
    Sign(String),
    /// A signer apart does not sign.
    #[error(transparent)]
    Signer(#[from] lucarne_signer::ClientError),
    /// The clock has jumped forward.
    #[error(
        "the clock jumped {ahead_ms} ms ahead of the time that has passed since the last round: nothing is signed with it. Correct it, and the log goes on by itself; one that is right now is taken after a minute, or, beyond a day, after a restart with `--confirm-clock`"
    )]
    Jumped {
        /// Milliseconds.
        ahead_ms: u64,
    },
    /// The log signed last so long ago that the clock may be wrong.
    #[error(
        "the clock is more than {days} days after the last signed checkpoint: a checkpoint that is signed ahead of its time would stop the log until then. If the clock is wrong, correct it; if the log was down for so long, start it with `lucarne serve --confirm-clock` and today's date (UTC, as 2026-07-01)"
    )]
    Unconfirmed {
        /// Whole days.
        days: u64,
    },
    /// Another instance leads this log now.
    #[error("{}", deposed(.by))]
    Deposed {
        /// The address of that instance, if it is known.
        by: Option<String>,
    },
    /// The clock is too far behind the log's own timestamps.
    #[error(
        "the clock is {behind_ms} ms behind the last signed timestamp: correct it; the log goes on by itself once it has caught up"
    )]
    Clock {
        /// Milliseconds.
        behind_ms: u64,
    },
}

impl Fatal {
    /// Returns whether it says what is wrong with the log, and not that it could not be
    /// looked at.
    pub fn is_verdict(&self) -> bool {
        use lucarne_storage::AssetError;
        matches!(
            self,
            Self::Inconsistent(_)
                | Self::NotCreated { .. }
                | Self::Known(_)
                | Self::Storage(AssetError::Damaged { .. })
        )
    }

    /// Returns whether another process has the log's dedup index open: it runs the log.
    pub fn is_index_in_use(&self) -> bool {
        matches!(self, Self::Dedup { in_use: true, .. })
    }

    /// Returns whether another instance has gone on with the log: where there are several, this
    /// one follows it, and nothing is wrong.
    pub(crate) fn is_overtaken(&self) -> bool {
        use lucarne_storage::{AssetError, LockError};
        matches!(
            self,
            Self::Deposed { .. }
                | Self::Lock(LockError::Conflict { found: Some(_), .. })
                | Self::Storage(AssetError::Overtaken { .. })
        )
    }

    /// Returns whether a store, a server or a disk only has to come back, or an operator has
    /// to make room on it or make it writable.
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
            "the log takes no more certificates now that are old or have SCTs: fresh ones come first"
        }
    }
}

fn deposed(by: &Option<String>) -> String {
    match by {
        Some(address) => format!("the instance at {address} leads this log now"),
        None => "another instance leads this log now".into(),
    }
}

/// The reasons why what is here is not what a known checkpoint has seen. Each text
/// ends with a code, which stays as it is.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KnownError {
    /// More was signed than is here.
    #[error(
        "{place} has a checkpoint of {known} entries, signed at {timestamp_ms} with this log's key, and lock, journal and storage here have {here}: they were rolled back, all of them, or this is a copy. Put the newest ones back; never start the log with older ones: it would sign a fork (known_checkpoint_newer)"
    )]
    Newer {
        /// Where it is known.
        place: String,
        /// Its entries.
        known: u64,
        /// The time at which it was signed, Unix milliseconds.
        timestamp_ms: u64,
        /// The entries that are signed here.
        here: u64,
    },
    /// Another history was signed than is here.
    #[error(
        "{place} has a checkpoint of {known} entries with the root {root}, signed at {timestamp_ms} with this log's key, and {here}: this key has signed two histories, or lock and storage here belong to a copy of this log. Find out which is the right one; nothing is signed until then (known_checkpoint_fork)"
    )]
    Fork {
        /// Where it is known.
        place: String,
        /// Its entries.
        known: u64,
        /// Its root.
        root: Hash,
        /// The time at which it was signed, Unix milliseconds.
        timestamp_ms: u64,
        /// The history that is here instead, in words.
        here: String,
    },
    /// The tiles here cannot be read well enough to tell.
    #[error(
        "whether the {known} entries that {place} has a checkpoint of are how this log begins cannot be told: {problem} (known_checkpoint_untold)"
    )]
    Untold {
        /// Where it is known.
        place: String,
        /// Its entries.
        known: u64,
        /// The problem with the tiles.
        problem: String,
    },
}

impl KnownError {
    /// Returns whether a log does not start with it. A damaged tile is what readers of
    /// it are told, and no reason not to start.
    pub fn refuses(&self) -> bool {
        !matches!(self, KnownError::Untold { .. })
    }
}
