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

fn full(lane: Lane) -> &'static str {
    match lane {
        Lane::Fresh => "the pool is full",
        Lane::Old => {
            "too many old certificates, or certificates with SCTs, are pending: fresh \
             certificates have priority"
        }
    }
}
