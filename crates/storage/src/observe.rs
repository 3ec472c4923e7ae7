//! Observation of requests to an object store, for metrics.

use std::time::Duration;

/// Receives every request to an object store, and every hit or miss of the cache. `()` ignores all
/// events.
pub trait Observer: Send + Sync + 'static {
    /// Called after a request, with its outcome and duration.
    fn request(&self, _operation: Operation, _outcome: Outcome, _took: Duration) {}

    /// Called if a request is sent a second time because the first is slow.
    fn hedge(&self) {}

    /// Called if a failed put or read is retried. Retries of listings and deletions only count as
    /// requests.
    fn retry(&self) {}

    /// Called if the disk cache has the requested file (`true`) or not (`false`).
    fn cache(&self, _hit: bool) {}

    /// Called with the current size of the disk cache in bytes.
    fn cache_holds(&self, _bytes: u64) {}
}

impl Observer for () {}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// An object was read.
    Get,
    /// An object was written.
    Put,
    /// Objects were listed.
    List,
    /// Objects were deleted, one or a batch.
    Delete,
    /// Another request, such as one for a token.
    Other,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 5] = [Self::Get, Self::Put, Self::List, Self::Delete, Self::Other];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request succeeded.
    Done,
    /// The object or the bucket does not exist.
    Absent,
    /// The condition of the request was not met.
    Conflict,
    /// The store refuses or does not support the request.
    Refused,
    /// The store is unavailable: 429 or 5xx.
    Unavailable,
    /// There was no response, or an incomplete one.
    Lost,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 6] = [
        Self::Done,
        Self::Absent,
        Self::Conflict,
        Self::Refused,
        Self::Unavailable,
        Self::Lost,
    ];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Absent => "absent",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Lost => "lost",
        }
    }
}
