//! Signatures by prepared keys, which are cheaper to verify in batches.

use std::fmt;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::Digest;

use crate::known::Known;

/// The longest ECDSA-Sig-Value, in bytes: two integers of 49, on P-384.
const LONGEST: usize = 2 + 2 * (2 + 49);

/// The signature of a leaf by a prepared ECDSA key, and the result of our own arithmetic.
///
/// The signature can be tried in a batch with signatures of other submissions
/// ([`Self::try_all`]), at a quarter of the cost. The decision does not change:
/// [`Validator::verify`](crate::Validator::verify) uses the result and decides as usual.
pub struct KnownSignature {
    known: Arc<Known>,
    digest: Digest,
    signature: Box<[u8]>,
    accepted: OnceLock<bool>,
}

impl KnownSignature {
    /// Number of signatures in a batch; more signatures need several batches.
    pub const BATCH: usize = lucarne_ecdsa::BATCH;

    /// Returns `None` if a batch has no advantage: for RSA keys, for processors that verify one
    /// ECDSA signature at a time, and for values that are too long for a signature.
    pub(crate) fn new(
        known: Arc<Known>,
        digest: impl FnOnce() -> Digest,
        signature: &[u8],
    ) -> Option<Self> {
        known.ecdsa().filter(|_| lucarne_ecdsa::has_batches())?;
        (signature.len() <= LONGEST).then(|| Self {
            known,
            digest: digest(),
            signature: signature.into(),
            accepted: OnceLock::new(),
        })
    }

    /// Returns `true` if both signatures fit into one batch: their keys are on the same curve.
    pub fn goes_with(&self, other: &Self) -> bool {
        self.known.kind() == other.known.kind()
    }

    /// Returns `true` if the signature has been tried.
    pub fn is_tried(&self) -> bool {
        self.accepted.get().is_some()
    }

    /// Verifies signatures in batches with our own arithmetic, and stores the results.
    pub fn try_all(signatures: &[Arc<Self>]) {
        let (asked, claims): (Vec<_>, Vec<_>) = signatures
            .iter()
            .filter_map(|signature| Some((signature, signature.claim()?)))
            .unzip();
        for (signature, accepted) in asked.iter().zip(lucarne_ecdsa::accept_all(&claims)) {
            // An earlier result of another thread is the same.
            let _ = signature.accepted.set(accepted);
        }
    }

    fn claim(&self) -> Option<lucarne_ecdsa::Claim<'_>> {
        Some(lucarne_ecdsa::Claim {
            key: self.known.ecdsa()?,
            digest: self.digest.as_ref(),
            signature: &self.signature,
        })
    }

    pub(crate) fn digest(&self) -> &Digest {
        &self.digest
    }

    pub(crate) fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Returns the key if our own arithmetic accepts the signature. Tries the signature first, if
    /// it is still untried.
    pub(crate) fn accepting(&self) -> Option<Arc<Known>> {
        let accept = || self.known.accepts(&self.digest, &self.signature);
        self.accepted
            .get_or_init(accept)
            .then(|| self.known.clone())
    }
}

impl fmt::Debug for KnownSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KnownSignature({:?})", self.accepted.get())
    }
}
