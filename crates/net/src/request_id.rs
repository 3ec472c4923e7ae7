//! Identifier of a request, in the log of this process and in the response.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderName, HeaderValue};

/// Identifier of a request: sixteen hexadecimal digits, unique in this process. After a refusal, a
/// client can quote the identifier, and the operator finds the reason in the log of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u64);

impl RequestId {
    /// Header field with the identifier.
    pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

    /// Returns the next identifier, which no other request of this process has.
    #[expect(clippy::new_without_default, reason = "no two are equal")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // The start is random in each process, so that identifiers from before and after a restart
        // differ.
        static FIRST: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));
        RequestId(FIRST.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Returns the identifier as the value of a header field.
    pub fn to_value(self) -> HeaderValue {
        HeaderValue::try_from(self.to_string())
            .unwrap_or_else(|_| unreachable!("hexadecimal digits may stand in a header field"))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_equal() {
        let (one, two) = (RequestId::new(), RequestId::new());
        assert_ne!(one, two);
        assert_eq!(one.to_value().len(), 16);
    }
}
