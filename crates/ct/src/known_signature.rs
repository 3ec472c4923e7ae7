//! Signatures by keys that our own arithmetic knows, which are cheaper to verify together.

use std::fmt;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::digest::Digest;

use crate::known::Known;

/// The longest ECDSA-Sig-Value, in bytes: two integers of 49, on P-384.
const LONGEST: usize = 2 + 2 * (2 + 49);

/// The signature of a leaf by an ECDSA key that our own arithmetic knows, and what that says of it.
///
/// It can be tried beside those of other submissions ([`Self::try_all`]), which costs a quarter, and
/// does not change what is said: [`Validator::verify`](crate::Validator::verify) then needs not try
/// it again, and decides as it always does.
pub struct KnownSignature {
    known: Arc<Known>,
    digest: Digest,
    signature: Box<[u8]>,
    accepted: OnceLock<bool>,
}

impl KnownSignature {
    /// Signatures that are tried together: more take longer.
    pub const BATCH: usize = lucarne_ecdsa::BATCH;

    /// None for what gains nothing by company: RSA keys, and processors that verify one ECDSA
    /// signature after the other; and for what is too long for a signature.
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

    /// Returns true if the two can share a batch: their keys are on the same curve.
    pub fn goes_with(&self, other: &Self) -> bool {
        self.known.kind() == other.known.kind()
    }

    /// Returns true once somebody has tried it.
    pub fn is_tried(&self) -> bool {
        self.accepted.get().is_some()
    }

    /// Tries signatures together.
    pub fn try_all(signatures: &[Arc<Self>]) {
        let (asked, claims): (Vec<_>, Vec<_>) = signatures
            .iter()
            .filter_map(|signature| Some((signature, signature.claim()?)))
            .unzip();
        for (signature, accepted) in asked.iter().zip(lucarne_ecdsa::accept_all(&claims)) {
            // Whoever was first has said the same.
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

    /// The key, if our own arithmetic accepts the signature. Tried now if nobody has.
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
