//! Issuing keys that are met again and again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use aws_lc_rs::digest::Digest;
use lucarne_ecdsa::KnownKey;

/// A table costs as much time as it saves in 16 (P-256) or 17 (P-384) verifications.
const OFTEN: u32 = 64;

/// Tables at one time in this process, of at most 340 kB each. The web has fewer issuing CAs with
/// ECDSA keys that issue every day; whoever comes later is verified as if met for the first time.
const TABLES: usize = 64;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Counts how often a key verified a signature, and makes its table when that is often.
#[derive(Debug, Default)]
pub(crate) struct Frequent {
    verified: AtomicU32,
    table: OnceLock<Table>,
}

#[derive(Debug)]
struct Table(KnownKey);

impl Frequent {
    /// Whether the signature over what has this digest is certainly good. Asked before a complete
    /// verifier, which decides when the answer is no.
    pub(crate) fn accepts(&self, digest: &Digest, signature: &[u8]) -> bool {
        let table = self.table.get();
        table.is_some_and(|table| table.0.accepts(digest.as_ref(), signature))
    }

    /// Notes that the key verified a signature.
    pub(crate) fn verified(&self, make: impl FnOnce() -> Option<KnownKey>) {
        // At its end the counter starts anew: 64 more attempts at a table, once in 4 billion.
        if self.verified.fetch_add(1, Ordering::Relaxed) == OFTEN
            && let Some(table) = Table::new(make)
        {
            // Set already only if the counter came round.
            let _ = self.table.set(table);
        }
    }
}

impl Table {
    fn new(make: impl FnOnce() -> Option<KnownKey>) -> Option<Self> {
        let taken = IN_USE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            (used < TABLES).then_some(used + 1)
        });
        taken.ok()?;
        match make() {
            Some(key) => Some(Self(key)),
            None => {
                IN_USE.fetch_sub(1, Ordering::Relaxed);
                None
            }
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        IN_USE.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::{SHA256, digest};
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

    use super::*;

    #[test]
    fn a_table_is_made_once_the_key_has_verified_often() {
        let signer = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let signature = signer.sign(&SystemRandom::new(), b"message").unwrap();
        let good = digest(&SHA256, b"message");
        let frequent = Frequent::default();
        for _ in 0..=OFTEN {
            assert!(!frequent.accepts(&good, signature.as_ref()));
            frequent.verified(|| KnownKey::p256(signer.public_key().as_ref()));
        }
        assert!(frequent.accepts(&good, signature.as_ref()));
        assert!(!frequent.accepts(&digest(&SHA256, b"other"), signature.as_ref()));
    }

    #[test]
    fn a_key_without_a_table_takes_none() {
        let frequent = Frequent::default();
        for _ in 0..=TABLES {
            frequent.verified.store(OFTEN, Ordering::Relaxed);
            frequent.verified(|| None);
        }
        assert!(IN_USE.load(Ordering::Relaxed) <= TABLES);
        let other = Frequent::default();
        other.verified.store(OFTEN, Ordering::Relaxed);
        let signer = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        other.verified(|| KnownKey::p256(signer.public_key().as_ref()));
        assert!(other.table.get().is_some());
    }
}
