//! What an object store was asked, for whoever counts it.

use std::time::Duration;

use http::{Method, Request, StatusCode};

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

/// What a request was for.
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

    /// As S3, Google's XML API and Azure say it.
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let listing = query.contains("list-type=") || query.contains("comp=list");
        match *request.method() {
            Method::GET if listing => Self::List,
            Method::GET | Method::HEAD => Self::Get,
            Method::PUT => Self::Put,
            Method::DELETE => Self::Delete,
            Method::POST if query.starts_with("delete") || query.contains("comp=batch") => {
                Self::Delete
            }
            _ => Self::Other,
        }
    }
}

/// What came of a request.
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

    pub(crate) fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            ..300 => Self::Done,
            404 => Self::Absent,
            304 | 409 | 412 => Self::Conflict,
            408 | 429 | 500.. => Self::Unavailable,
            _ => Self::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let of = |method: &str, uri: &str| {
            Operation::of(&Request::builder().method(method).uri(uri).body(()).unwrap())
        };
        assert_eq!(
            of("GET", "http://h/b?list-type=2&prefix=x"),
            Operation::List
        );
        assert_eq!(
            of("GET", "http://h/c?restype=container&comp=list"),
            Operation::List
        );
        assert_eq!(of("GET", "http://h/b/checkpoint"), Operation::Get);
        assert_eq!(of("PUT", "http://h/b/checkpoint"), Operation::Put);
        assert_eq!(of("POST", "http://h/b?delete"), Operation::Delete);
        assert_eq!(
            of("POST", "http://h/c?restype=container&comp=batch"),
            Operation::Delete
        );
        assert_eq!(of("POST", "http://h/token"), Operation::Other);
    }
}
