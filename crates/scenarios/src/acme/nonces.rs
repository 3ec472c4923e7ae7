use parking_lot::Mutex;

/// Unused nonces from the server, the newest last. The newest is taken first, because it is the
/// least likely to have expired.
#[derive(Debug, Default)]
pub(super) struct NoncePool(Mutex<Vec<String>>);

/// Limit of stored nonces.
const MOST: usize = 1024;

impl NoncePool {
    pub(super) fn take(&self) -> Option<String> {
        self.0.lock().pop()
    }

    pub(super) fn put(&self, nonce: &str) {
        let mut nonces = self.0.lock();
        if nonces.len() < MOST {
            nonces.push(nonce.to_owned());
        }
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
        nonces.put("a");
        nonces.put("b");
        assert_eq!(nonces.take().as_deref(), Some("b"));
        assert_eq!(nonces.take().as_deref(), Some("a"));
        assert_eq!(nonces.take(), None);
        (0..2 * MOST).for_each(|n| nonces.put(&n.to_string()));
        assert_eq!(nonces.0.lock().len(), MOST);
    }

    #[test]
    fn what_is_no_nonce() {
        assert!(is_nonce("oFvnlFP1wIhRlYS2jTaXbA"));
        for other in ["", "a b", "a=", "<html>", "a+b"] {
            assert!(!is_nonce(other), "{other}");
        }
    }
}
