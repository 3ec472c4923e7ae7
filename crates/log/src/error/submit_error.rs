//! The reasons why a submission gets no SCT.

use lucarne_ct::Rejection;

use crate::config::lane::Lane;

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
    /// The log cannot accept the submission now (503 with Retry-After). The entry may or may not be
    /// in the log: a retry gets the same SCT.
    #[error("{}; retry in {} s", .0, .0.retry_after_seconds())]
    Unavailable(Unavailable),
    /// The shard is retired (410).
    #[error("this log is retired and accepts no more submissions")]
    Gone,
}

fn full(lane: Lane) -> &'static str {
    match lane {
        Lane::Fresh => "the pool is full",
        Lane::Old => {
            "too many old certificates, or certificates with SCTs, are pending: fresh \
             certificates have priority"
        }
    }
}

/// The causes of [`SubmitError::Unavailable`]. The texts are suitable for publication.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The log is being opened.
    #[error("the log is starting")]
    Starting,
    /// The log ends, and no other instance continues it.
    #[error("the log is shutting down")]
    ShuttingDown,
    /// An error has stopped the log.
    #[error("an error has stopped the log")]
    Stopped {
        /// The time until the log tries to start again.
        retry_after_seconds: u32,
    },
    /// Writes of the log do not return.
    #[error("the log is waiting for its disk")]
    Stalled,
    /// The round of the entry failed.
    #[error("the round failed")]
    RoundFailed,
    /// No instance leads.
    #[error("no instance leads this log now")]
    NoLeader,
    /// Another instance takes over the log.
    #[error("the log is being handed over to another instance")]
    HandedOver,
    /// The leading instance has the entry, and does not respond.
    #[error("the leading instance does not respond to submissions")]
    LeaderSilent,
    /// The leading instance has one of the other causes.
    #[error("the leading instance cannot accept this submission now")]
    LeaderUnavailable {
        /// The time that the leading instance has named.
        retry_after_seconds: u32,
    },
    /// The root of the chain may be among the roots that have not been read.
    #[error("the log has not yet read all roots that it accepts")]
    RootsUnread,
    /// The index has too many lookups.
    #[error("too many submissions are waiting for the log's index")]
    IndexBusy,
    /// The index is being rebuilt, and does not know yet whether it has the entry.
    #[error(
        "the log's index is being read from its tiles, and the remaining tiles may have this entry"
    )]
    IndexUnread {
        /// The estimated time until the part that may have the entry is read.
        retry_after_seconds: u32,
    },
    /// Tiles that may have the entry cannot be read.
    #[error("a part of the log that may have this entry is unreadable now")]
    TilesUnreadable,
    /// Too many duplicates wait for their proofs.
    #[error("too many duplicate submissions are pending")]
    DuplicatesPending,
    /// The place of the entry in the tree cannot be proven.
    #[error("the log cannot prove now that it has this entry")]
    Unproven,
    /// The signer does not respond, or refuses.
    #[error("the log cannot sign now")]
    CannotSign,
}

impl Unavailable {
    /// Returns the time after which the client may retry, at least 1.
    pub fn retry_after_seconds(&self) -> u32 {
        match *self {
            Self::RoundFailed | Self::NoLeader | Self::HandedOver | Self::LeaderSilent => 1,
            Self::Starting | Self::DuplicatesPending | Self::CannotSign => 5,
            Self::ShuttingDown | Self::Stalled | Self::RootsUnread | Self::IndexBusy => 10,
            Self::TilesUnreadable | Self::Unproven => 60,
            Self::Stopped {
                retry_after_seconds,
            }
            | Self::LeaderUnavailable {
                retry_after_seconds,
            }
            | Self::IndexUnread {
                retry_after_seconds,
            } => retry_after_seconds,
        }
    }

    /// Returns whether the next leading instance may accept the submission.
    pub(crate) fn ends_with_leader(&self) -> bool {
        matches!(
            self,
            Self::RoundFailed | Self::NoLeader | Self::HandedOver | Self::LeaderSilent
        )
    }
}
