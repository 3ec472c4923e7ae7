//! Requests and answers, as an [`Observer`](crate::Observer) is told of them.

use http::{Method, Request, StatusCode};

use crate::{Operation, Outcome};

impl Operation {
    /// As S3, Google's XML API and Azure say it.
    pub(super) fn of<B>(request: &Request<B>) -> Self {
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

impl Outcome {
    pub(super) fn of(status: StatusCode) -> Self {
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
