//! A name for one request, in the log of this process and in what its sender gets.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderName, HeaderValue};

/// The name of one request: sixteen hexadecimal digits, which no other request
/// of this process has. Whoever was refused can name it, and the log of the
/// process says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u64);

impl RequestId {
    /// The header field that carries it.
    pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

    /// The name of one more request.
    #[expect(clippy::new_without_default, reason = "no two are equal")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Begins elsewhere in each process, so that names of before a restart are
        // told from those after it.
        static FIRST: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));
        RequestId(FIRST.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The name as a header field's value.
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
