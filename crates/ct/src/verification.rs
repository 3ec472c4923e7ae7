//! By what signatures are verified: our own arithmetic for keys that are met often, aws-lc-rs for
//! all others, and as the judge of both.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::Digest;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::known::{KeyName, Known, KnownKeys, Prepared, TABLE_BYTES};
use crate::known_signature::KnownSignature;

/// Of the signatures that our arithmetic accepts, aws-lc-rs verifies one in so many as well:
/// as a general verification costs four to five times one of ours, that is less than 0.5 %.
const RECHECK_ONE_IN: u64 = 1000;

/// The verification of signatures for all logs of a process: what our own arithmetic knows of
/// issuing keys, and whether it may be asked. One for all logs, as a key is the same in all.
///
/// Our arithmetic says yes, or nothing; aws-lc-rs decides where it says nothing. Of what it accepts
/// a sample that nobody can foresee, and the first signature of each key, is verified by aws-lc-rs
/// as well. Should that ever disagree, the signature is refused, our arithmetic is not asked again,
/// and the [`Disagreement`] is there for people to see.
pub struct Verification {
    by_own: AtomicBool,
    keys: KnownKeys,
    /// Of the sample.
    seed: u64,
    accepted: AtomicU64,
    rechecked: AtomicU64,
    disagreements: AtomicU64,
    first: OnceLock<Disagreement>,
    alarm: Box<dyn Fn(&Disagreement) + Send + Sync>,
}

/// The figures of what has been verified, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationStats {
    /// True while our own arithmetic is asked.
    pub by_own: bool,
    /// Keys that it knows.
    pub keys: usize,
    /// The memory that they take, in bytes.
    pub key_bytes: usize,
    /// Signatures that it accepted.
    pub accepted: u64,
    /// Those of them that aws-lc-rs has verified as well.
    pub rechecked: u64,
    /// Those of them that aws-lc-rs refused.
    pub disagreements: u64,
}

/// A signature that our own arithmetic accepted and aws-lc-rs refused: all that is needed to verify
/// it again elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The public key: what the BIT STRING of its SubjectPublicKeyInfo holds.
    pub key: Vec<u8>,
    /// The digest that was signed.
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
    /// By our own arithmetic where a key is met often.
    pub fn by_own_arithmetic() -> Self {
        Self::new(true, TABLE_BYTES)
    }

    /// By aws-lc-rs alone.
    pub fn general() -> Self {
        Self::new(false, 0)
    }

    fn new(by_own: bool, capacity: usize) -> Self {
        let mut seed = [0; 8];
        // Without randomness the sample can be foreseen; the first of each key is verified still.
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

    /// The same, with somebody to tell of every disagreement at once.
    pub fn with_alarm(self, alarm: impl Fn(&Disagreement) + Send + Sync + 'static) -> Self {
        Self {
            alarm: Box::new(alarm),
            ..self
        }
    }

    /// The first disagreement, if there was one: our arithmetic has not been asked since.
    pub fn disagreement(&self) -> Option<&Disagreement> {
        self.first.get()
    }

    /// Counts and sizes.
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

    /// Notes that aws-lc-rs refused what our own arithmetic had accepted, sounds the alarm, and
    /// does not ask the latter any more.
    pub fn disagree(&self, disagreement: Disagreement) {
        self.by_own.store(false, Relaxed);
        self.keys.clear();
        self.disagreements.fetch_add(1, Relaxed);
        (self.alarm)(&disagreement);
        // Others are told, and counted.
        let _ = self.first.set(disagreement);
    }

    /// The signature, to be tried beside others. None if our own arithmetic does not know the key, or
    /// cannot do that.
    pub(crate) fn known_signature(
        &self,
        key: &KeyName,
        digest: impl FnOnce() -> Digest,
        signature: &[u8],
    ) -> Option<KnownSignature> {
        let known = self.keys.find(key)?;
        KnownSignature::new(known, digest, signature)
    }

    /// Returns whether the signature is this key's over what has this digest. `complete` is
    /// aws-lc-rs's verdict, asked only where it is needed.
    ///
    /// A good signature makes the key one that is met more often, so that it has to stand below an
    /// accepted root: whose own signature is not yet verified must not be asked here.
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

    /// The same for a signature of this key that may have been tried beside others.
    pub(crate) fn verify_known(
        &self,
        key: &KeyInUse<'_>,
        known: &KnownSignature,
        complete: impl FnOnce() -> bool,
    ) -> bool {
        let (digest, signature) = (known.digest(), known.signature());
        self.decide(key, digest, signature, || known.accepting(), complete)
    }

    /// Decides of a signature, which our own arithmetic accepts if `accepting` has the key.
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

    /// Returns what `complete` says of a signature that our own arithmetic accepted.
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

    /// By a hash that only this process knows, so that nobody can tell whose turn it is.
    fn is_sampled(&self, digest: &Digest, signature: &[u8]) -> bool {
        let seed = xxh3_64_with_seed(digest.as_ref(), self.seed);
        xxh3_64_with_seed(signature, seed).is_multiple_of(RECHECK_ONE_IN)
    }
}

/// A key that is to verify a signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyInUse<'k> {
    pub(crate) name: &'k KeyName,
    /// Holds what the SubjectPublicKeyInfo's BIT STRING holds.
    pub(crate) bits: &'k [u8],
}

impl fmt::Debug for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verification({:?})", self.stats())
    }
}

#[cfg(test)]
mod tests;
