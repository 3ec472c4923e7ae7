use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

/// Nonces of the server.
#[derive(Debug, Default)]
pub(super) struct NoncePool(Mutex<Nonces>);

#[derive(Debug, Default)]
struct Nonces {
    /// Unused nonces, the newest last: the newest nonce is the least likely to have expired.
    unused: Vec<Arc<str>>,
    /// The last nonces that the server has issued, the oldest first.
    given: VecDeque<Arc<str>>,
    /// The nonces of `given` as a set, for look-ups.
    known: HashSet<Arc<str>>,
}

/// The reasons why a response has no usable nonce.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NonceError {
    #[error("the response ({status}) has no Replay-Nonce")]
    Missing { status: u16 },
    #[error("Replay-Nonce: {0:?} is not base64url")]
    Malformed(String),
    #[error("the server has already issued the nonce {0}")]
    Reused(Arc<str>),
}

/// Maximum number of unused nonces that are kept.
const MOST: usize = 1024;
/// Number of earlier nonces that each new nonce is compared with.
const GIVEN: usize = 4096;

impl NoncePool {
    pub(super) fn take(&self) -> Option<Arc<str>> {
        self.0.lock().unused.pop()
    }

    /// Keeps a nonce for a later request.
    pub(super) fn put(&self, nonce: Arc<str>) {
        let mut nonces = self.0.lock();
        if nonces.unused.len() < MOST {
            nonces.unused.push(nonce);
        }
    }

    /// Records a nonce of a response.
    ///
    /// # Errors
    /// [`NonceError::Reused`], if the server has issued the nonce before: nonces are unique (RFC
    /// 8555, section 6.5).
    pub(super) fn note(&self, nonce: &str) -> Result<Arc<str>, NonceError> {
        let mut nonces = self.0.lock();
        let nonce: Arc<str> = nonce.into();
        if !nonces.known.insert(nonce.clone()) {
            return Err(NonceError::Reused(nonce));
        }
        nonces.given.push_back(nonce.clone());
        if nonces.given.len() > GIVEN
            && let Some(oldest) = nonces.given.pop_front()
        {
            nonces.known.remove(&oldest);
        }
        Ok(nonce)
    }
}

/// Returns whether the text is a nonce: non-empty base64url (RFC 8555, section 6.5.1).
pub(super) fn is_nonce(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_used_once_the_newest_first() {
        let nonces = NoncePool::default();
        nonces.put("a".into());
        nonces.put("b".into());
        assert_eq!(nonces.take().as_deref(), Some("b"));
        assert_eq!(nonces.take().as_deref(), Some("a"));
        assert_eq!(nonces.take(), None);
        (0..2 * MOST).for_each(|n| nonces.put(n.to_string().into()));
        assert_eq!(nonces.0.lock().unused.len(), MOST);
    }

    #[test]
    fn a_nonce_that_comes_twice_is_refused() {
        let nonces = NoncePool::default();
        assert_eq!(nonces.note("a"), Ok("a".into()));
        assert_eq!(nonces.note("a"), Err(NonceError::Reused("a".into())));
        (0..GIVEN).for_each(|n| assert!(nonces.note(&n.to_string()).is_ok()));
        assert_eq!(nonces.note("0"), Err(NonceError::Reused("0".into())));
        // Older nonces are forgotten.
        assert!(nonces.note("a").is_ok());
        assert_eq!(nonces.0.lock().known.len(), GIVEN);
    }

    #[test]
    fn what_is_no_nonce() {
        assert!(is_nonce("oFvnlFP1wIhRlYS2jTaXbA"));
        for other in ["", "a b", "a=", "<html>", "a+b"] {
            assert!(!is_nonce(other), "{other}");
        }
    }
}
