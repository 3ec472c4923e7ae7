//! The reasons why a log cannot be opened, or had to stop.

use lucarne_x509::text::counted;

use crate::error::away::Away;
use crate::error::dedup_error::DedupError;
use crate::error::entries;
use crate::error::inconsistency::{
    Inconsistency, IndexInconsistency, JournalInconsistency, LockInconsistency,
    SignerInconsistency, StorageInconsistency,
};
use crate::error::known_error::KnownError;
use crate::error::sign_error::SignError;
use crate::error::verify_error::VerifyError;

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
        "{lock} has no log with ID {log_id} ({name}): create the log with `lucarne init`, or \
         correct the key or the lock in the configuration"
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
        "{problem}. Storage and journal end with {there}: if a failing disk has lost the \
         last round before any of it was published, `lucarne lock rebuild --never-published` \
         verifies that and returns to these entries",
        there = entries(*.there)
    )]
    LastRound {
        /// The contradiction.
        problem: Box<Inconsistency>,
        /// Number of entries that storage and journal lead to.
        there: u64,
    },
    /// The log here does not match a checkpoint of an external source.
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
    /// The separate signer does not sign.
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
    /// The clock is ahead of the clock of the storage or of the lock.
    #[error(
        "the clock is {ahead_ms} ms ahead of the clock of {place}: nothing is signed, because a \
         checkpoint that is signed ahead of its time would stop the log until then. Correct the \
         wrong clock; if only the other clock is wrong, start the log with `lucarne serve \
         --confirm-clock` and today's date (UTC, as 2026-07-01)"
    )]
    AheadOfStore {
        /// The difference in milliseconds.
        ahead_ms: u64,
        /// The storage or the lock with the other clock.
        place: String,
    },
    /// The log's last signature is so old that the clock may be wrong.
    #[error(
        "the clock is more than {days} after the last signed checkpoint: a checkpoint that is \
         signed ahead of its time would stop the log until then. If the clock is wrong, correct it; \
         if the log was down for so long, start it with `lucarne serve --confirm-clock` and today's \
         date (UTC, as 2026-07-01)",
        days = counted(*.days, "day")
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
    /// Returns whether the error is a contradiction in the log itself, not a failure to read the
    /// log.
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
    /// then follows the other instance.
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

fn deposed(by: &Option<String>) -> String {
    match by {
        Some(address) => format!("the instance at {address} leads this log now"),
        None => "another instance leads this log now".into(),
    }
}

impl From<Away> for Fatal {
    fn from(away: Away) -> Self {
        Fatal::Away(away)
    }
}

macro_rules! fatal_from {
    ($($variant:ident($part:ty)),* $(,)?) => {$(
        impl From<$part> for Fatal {
            fn from(part: $part) -> Self {
                Fatal::Inconsistent(Box::new(Inconsistency::$variant(part)))
            }
        }
    )*};
}

fatal_from! {
    Lock(LockInconsistency),
    Journal(JournalInconsistency),
    Storage(StorageInconsistency),
    Signer(SignerInconsistency),
    Index(IndexInconsistency),
}
