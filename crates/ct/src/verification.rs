//! The choice of the verifier: our own arithmetic for frequent keys, aws-lc-rs for all other keys,
//! and for a sample as a check.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::Digest;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::known::{KeyName, Known, KnownKeys, Prepared, TABLE_BYTES};
use crate::known_signature::KnownSignature;

/// The number of signatures, accepted by our own arithmetic, of which aws-lc-rs verifies one. A
/// general verification costs four to five times as much as our own, so that the overhead is less
/// than 0.5 %.
const RECHECK_ONE_IN: u64 = 1000;

/// The verification of signatures for all logs of a process: the prepared issuing keys, and whether
/// our own arithmetic may be used. All logs share the prepared keys, because all logs get
/// certificates of the same issuing keys.
///
/// Our own arithmetic either accepts a signature or leaves the decision to aws-lc-rs. aws-lc-rs
/// also verifies an unpredictable sample of the accepted signatures, and the first signature of
/// each key. If aws-lc-rs ever disagrees, the signature is refused, our own arithmetic is disabled,
/// and the [`Disagreement`] is reported.
pub struct Verification {
    by_own: AtomicBool,
    keys: KnownKeys,
    /// Seed of the sample.
    seed: u64,
    accepted: AtomicU64,
    rechecked: AtomicU64,
    disagreements: AtomicU64,
    first: OnceLock<Disagreement>,
    alarm: Box<dyn Fn(&Disagreement) + Send + Sync>,
}

/// Counters of verified signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationStats {
    /// Whether our own arithmetic is used.
    pub by_own: bool,
    /// Number of prepared keys.
    pub keys: usize,
    /// Memory of the prepared keys in bytes.
    pub key_bytes: usize,
    /// Signatures that our own arithmetic accepted.
    pub accepted: u64,
    /// Accepted signatures that aws-lc-rs has verified as well.
    pub rechecked: u64,
    /// Accepted signatures that aws-lc-rs refused.
    pub disagreements: u64,
}

/// A signature that our own arithmetic accepted and aws-lc-rs refused, with all data to verify it
/// elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The public key: the content of the BIT STRING in its SubjectPublicKeyInfo.
    pub key: Vec<u8>,
    /// The signed digest.
    pub digest: Vec<u8>,
    /// The signature.
    pub signature: Vec<u8>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [key, digest, signature] = [&self.key, &self.digest, &self.signature].map(hex::encode);
        write!(f, "key {key}, digest {digest}, signature {signature}")
    }
}

impl Default for Verification {
    fn default() -> Self {
        Self::by_own_arithmetic()
    }
}

impl Verification {
    /// Creates a verification that uses our own arithmetic for frequent keys.
    pub fn by_own_arithmetic() -> Self {
        Self::new(true, TABLE_BYTES)
    }

    /// Creates a verification that uses aws-lc-rs alone.
    pub fn general() -> Self {
        Self::new(false, 0)
    }

    fn new(by_own: bool, capacity: usize) -> Self {
        let mut seed = [0; 8];
        // Without random numbers the sample is predictable; the first signature of each key is
        // still verified.
        let _ = aws_lc_rs::rand::fill(&mut seed);
        Self {
            by_own: AtomicBool::new(by_own),
            keys: KnownKeys::new(capacity),
            seed: u64::from_ne_bytes(seed),
            accepted: AtomicU64::new(0),
            rechecked: AtomicU64::new(0),
            disagreements: AtomicU64::new(0),
            first: OnceLock::new(),
            alarm: Box::new(|_| {}),
        }
    }

    /// Sets the function that is called for every disagreement.
    pub fn with_alarm(self, alarm: impl Fn(&Disagreement) + Send + Sync + 'static) -> Self {
        Self {
            alarm: Box::new(alarm),
            ..self
        }
    }

    /// Returns the first disagreement, if any: our own arithmetic has been disabled since.
    pub fn disagreement(&self) -> Option<&Disagreement> {
        self.first.get()
    }

    /// Returns the counters, and the number and size of the prepared keys.
    pub fn stats(&self) -> VerificationStats {
        let (keys, key_bytes) = self.keys.size();
        VerificationStats {
            by_own: self.by_own.load(Relaxed),
            keys,
            key_bytes,
            accepted: self.accepted.load(Relaxed),
            rechecked: self.rechecked.load(Relaxed),
            disagreements: self.disagreements.load(Relaxed),
        }
    }

    /// Records that aws-lc-rs refused a signature that our own arithmetic had accepted, calls the
    /// alarm, and disables our own arithmetic.
    pub fn disagree(&self, disagreement: Disagreement) {
        self.by_own.store(false, Relaxed);
        self.keys.clear();
        self.disagreements.fetch_add(1, Relaxed);
        (self.alarm)(&disagreement);
        // Later disagreements are only reported and counted.
        let _ = self.first.set(disagreement);
    }

    /// Returns the signature for a batch. `None` if the key is not prepared, or if batches are not
    /// supported.
    pub(crate) fn known_signature(
        &self,
        key: &KeyName,
        digest: impl FnOnce() -> Digest,
        signature: &[u8],
    ) -> Option<KnownSignature> {
        let known = self.keys.find(key)?;
        KnownSignature::new(known, digest, signature)
    }

    /// Returns `true` if the signature over this digest is valid for this key. `complete` is the
    /// verdict of aws-lc-rs, computed only if needed.
    ///
    /// A valid signature counts as a use of the key. The key must therefore be below an accepted
    /// root: do not call this before the signature on the key's own certificate has been verified.
    pub(crate) fn verify(
        &self,
        key: &KeyInUse<'_>,
        digest: &Digest,
        signature: &[u8],
        complete: impl FnOnce() -> bool,
    ) -> bool {
        let accepting = || {
            let known = self.keys.find(key.name);
            known.filter(|known| known.accepts(digest, signature))
        };
        self.decide(key, digest, signature, accepting, complete)
    }

    /// Verifies a signature of this key that may have been tried in a batch.
    pub(crate) fn verify_known(
        &self,
        key: &KeyInUse<'_>,
        known: &KnownSignature,
        complete: impl FnOnce() -> bool,
    ) -> bool {
        let (digest, signature) = (known.digest(), known.signature());
        self.decide(key, digest, signature, || known.accepting(), complete)
    }

    /// Decides on a signature; `accepting` returns the key if our own arithmetic accepts the
    /// signature.
    fn decide(
        &self,
        key: &KeyInUse<'_>,
        digest: &Digest,
        signature: &[u8],
        accepting: impl FnOnce() -> Option<Arc<Known>>,
        complete: impl FnOnce() -> bool,
    ) -> bool {
        if !self.by_own.load(Relaxed) {
            return complete();
        }
        let is_good = match accepting() {
            None => complete(),
            Some(known) => {
                self.accepted.fetch_add(1, Relaxed);
                let is_rechecked = known.is_new() || self.is_sampled(digest, signature);
                !is_rechecked || self.recheck(key, digest, signature, complete)
            }
        };
        if is_good {
            let prepare = || Prepared::new(key.name.kind, key.bits);
            self.keys.used(key.name, prepare);
        }
        is_good
    }

    /// Returns the verdict of `complete` for a signature that our own arithmetic accepted.
    fn recheck(
        &self,
        key: &KeyInUse<'_>,
        digest: &Digest,
        signature: &[u8],
        complete: impl FnOnce() -> bool,
    ) -> bool {
        self.rechecked.fetch_add(1, Relaxed);
        let is_good = complete();
        if !is_good {
            self.disagree(Disagreement {
                key: key.bits.to_vec(),
                digest: digest.as_ref().to_vec(),
                signature: signature.to_vec(),
            });
        }
        is_good
    }

    /// Selects the sample by a hash with a secret seed, so that the sample is unpredictable.
    fn is_sampled(&self, digest: &Digest, signature: &[u8]) -> bool {
        let seed = xxh3_64_with_seed(digest.as_ref(), self.seed);
        xxh3_64_with_seed(signature, seed).is_multiple_of(RECHECK_ONE_IN)
    }
}

/// A key used for a verification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyInUse<'k> {
    pub(crate) name: &'k KeyName,
    /// The content of the BIT STRING in the SubjectPublicKeyInfo.
    pub(crate) bits: &'k [u8],
}

impl fmt::Debug for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verification({:?})", self.stats())
    }
}

#[cfg(test)]
mod tests;
