//! The observation of requests to an object store, for whoever counts it.

use std::time::Duration;

/// Is told of every request to an object store, and of what a cache spared it.
/// `()` does not care.
pub trait Observer: Send + Sync + 'static {
    /// A request was sent, and this came of it.
    fn request(&self, _operation: Operation, _outcome: Outcome, _took: Duration) {}

    /// A request was sent a second time, beside the first, which was slow.
    fn hedge(&self) {}

    /// A put or a read was repeated, because it had failed. (The repetitions of
    /// listings and deletions are only among the requests.)
    fn retry(&self) {}

    /// The cache on disk had what a reader asked for, or had it not.
    fn cache(&self, _hit: bool) {}

    /// The cache on disk now holds so many bytes.
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
    /// Something else, such as a token.
    Other,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Get, Self::Put, Self::List, Self::Delete, Self::Other];

    /// Its name in metrics.
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
    /// It was done.
    Done,
    /// There is no such object, or no such bucket.
    Absent,
    /// The object was not as the condition of the request says.
    Conflict,
    /// The store does not let us, or does not understand.
    Refused,
    /// The store cannot now: 429 or 5xx.
    Unavailable,
    /// There was no answer, or not the whole of it.
    Lost,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Done,
        Self::Absent,
        Self::Conflict,
        Self::Refused,
        Self::Unavailable,
        Self::Lost,
    ];

    /// Its name in metrics.
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
