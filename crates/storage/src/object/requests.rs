//! Classification of requests and responses for an [`Observer`](crate::Observer).

use http::{Method, Request, StatusCode};

use crate::{Operation, Outcome};

/// Returns the operation of a request of S3, Google's XML API or Azure.
pub(super) fn operation<B>(request: &Request<B>) -> Operation {
    let query = request.uri().query().unwrap_or_default();
    let listing = query.contains("list-type=") || query.contains("comp=list");
    match *request.method() {
        Method::GET if listing => Operation::List,
        Method::GET | Method::HEAD => Operation::Get,
        Method::PUT => Operation::Put,
        Method::DELETE => Operation::Delete,
        Method::POST if query.starts_with("delete") || query.contains("comp=batch") => {
            Operation::Delete
        }
        _ => Operation::Other,
    }
}

/// Returns the outcome for the status of a response.
pub(super) fn outcome(status: StatusCode) -> Outcome {
    match status.as_u16() {
        ..300 => Outcome::Done,
        404 => Outcome::Absent,
        304 | 409 | 412 => Outcome::Conflict,
        408 | 429 | 500.. => Outcome::Unavailable,
        _ => Outcome::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let of = |method: &str, uri: &str| {
            operation(&Request::builder().method(method).uri(uri).body(()).unwrap())
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
