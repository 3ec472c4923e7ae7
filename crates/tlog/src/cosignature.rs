//! Cosignatures: statements of a cosigner that a checkpoint or a subtree is consistent with all
//! that it has seen of a log (C2SP tlog-cosignature, main of 2026-07-22).

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair, ML_DSA_44_SIGNING, PqdsaKeyPair};

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::hash::Hash;
use crate::note::NoteSignature;
use crate::subtree::Subtree;
use crate::vkey::{KeyError, KeyType, VerifierKey};

/// The start of every message that an ML-DSA-44 cosigner signs.
const LABEL: &[u8; 12] = b"subtree/v1\n\0";

/// The first line of every message that an Ed25519 cosigner signs.
const ED25519_HEADER: &str = "cosignature/v1";

/// Lengths of signatures in bytes, without timestamp.
pub(crate) const ED25519_LENGTH: usize = 64;
pub(crate) const ML_DSA_44_LENGTH: usize = 2420;

/// Longest name of a cosigner, and longest origin, in a [`CosignedMessage`], in bytes.
pub(crate) const MAX_NAME: usize = 255;

/// The latest timestamp of a cosignature, in seconds since 1970.
pub const MAX_TIMESTAMP: u64 = (1 << 63) - 1;

/// The message that an ML-DSA-44 cosigner signs (`cosigned_message`).
pub(crate) struct CosignedMessage<'m> {
    pub(crate) cosigner: &'m str,
    /// Seconds since 1970, or 0 for a statement without a time.
    pub(crate) timestamp: u64,
    pub(crate) origin: &'m str,
    pub(crate) subtree: Subtree,
    pub(crate) hash: Hash,
}

impl<'m> CosignedMessage<'m> {
    pub(crate) fn of_checkpoint(
        cosigner: &'m str,
        timestamp: u64,
        checkpoint: &'m Checkpoint,
    ) -> Self {
        Self {
            cosigner,
            timestamp,
            origin: &checkpoint.origin,
            subtree: Subtree::first(checkpoint.size),
            hash: checkpoint.root,
        }
    }

    /// Returns the signed bytes; `None` if the name or the origin is empty or too long.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let mut message = LABEL.to_vec();
        put_name(&mut message, self.cosigner)?;
        message.extend_from_slice(&self.timestamp.to_be_bytes());
        put_name(&mut message, self.origin)?;
        message.extend_from_slice(&self.subtree.start().to_be_bytes());
        message.extend_from_slice(&self.subtree.end().to_be_bytes());
        message.extend_from_slice(&self.hash.0);
        Some(message)
    }
}

fn put_name(message: &mut Vec<u8>, name: &str) -> Option<()> {
    let length = u8::try_from(name.len()).ok().filter(|length| *length > 0)?;
    message.push(length);
    message.extend_from_slice(name.as_bytes());
    Some(())
}

/// Returns the message that an Ed25519 cosigner signs, for the text of a checkpoint.
pub(crate) fn ed25519_message(timestamp: u64, text: &str) -> Vec<u8> {
    format!("{ED25519_HEADER}\ntime {timestamp}\n{text}").into_bytes()
}

/// Splits a `timestamped_signature` into timestamp and signature.
pub(crate) fn split_timestamp(signature: &[u8]) -> Option<(u64, &[u8])> {
    let (timestamp, signature) = signature.split_first_chunk()?;
    Some((u64::from_be_bytes(*timestamp), signature))
}

/// A private key that cosigns checkpoints and, with ML-DSA-44, subtrees.
///
/// # Examples
///
/// ```
/// use lucarne_tlog::{Checkpoint, Cosigner, EMPTY_ROOT, SignedNote, Subtree};
///
/// let cosigner = Cosigner::ml_dsa_44("witness.example/w1", &[7; 32])?;
/// let origin = "log.example/2026h2".to_owned();
/// let text = Checkpoint { origin, size: 0, root: EMPTY_ROOT }.to_string();
/// let signatures = vec![cosigner.cosign(&text, 1_790_000_000)?];
/// let note = SignedNote { text, signatures };
/// assert_eq!(cosigner.verifier().verify(&note), Ok(Some(1_790_000_000)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cosigner {
    key: PrivateKey,
    verifier: VerifierKey,
}

enum PrivateKey {
    Ed25519(Ed25519KeyPair),
    MlDsa44(PqdsaKeyPair),
}

/// The reasons why a cosigner does not sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CosignError {
    /// The text is not a checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The timestamp of a checkpoint is 0, or later than [`MAX_TIMESTAMP`].
    #[error("the timestamp {0} of the cosignature is not between 1 and 2^63 - 1")]
    Timestamp(u64),
    /// The cosigned message has room for 255 bytes.
    #[error("the origin is empty or has more than 255 bytes")]
    Origin,
    /// Only ML-DSA-44 cosignatures are defined for subtrees.
    #[error("an Ed25519 key cannot cosign subtrees: use an ML-DSA-44 key")]
    Subtree,
    /// The library could not sign.
    #[error("the signature could not be computed")]
    Signing,
}

impl Cosigner {
    /// Creates a cosigner with the Ed25519 key of this seed.
    pub fn ed25519(name: &str, seed: &[u8; 32]) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| KeyError::Key)?;
        let public_key = pair.public_key().as_ref();
        let verifier = VerifierKey::new(name, KeyType::Ed25519Cosigner, public_key)?;
        let key = PrivateKey::Ed25519(pair);
        Ok(Self { key, verifier })
    }

    /// Creates a cosigner with the ML-DSA-44 key of this seed (FIPS 204, ξ).
    pub fn ml_dsa_44(name: &str, seed: &[u8; 32]) -> Result<Self, KeyError> {
        let pair = PqdsaKeyPair::from_seed(&ML_DSA_44_SIGNING, seed).map_err(|_| KeyError::Key)?;
        let public_key = pair.public_key().as_ref();
        let verifier = VerifierKey::new(name, KeyType::MlDsa44Cosigner, public_key)?;
        let key = PrivateKey::MlDsa44(pair);
        Ok(Self { key, verifier })
    }

    /// Returns the key that verifies the cosignatures.
    #[must_use]
    pub fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    /// Returns the cosignature of a checkpoint, given as its text with its extension lines.
    /// `timestamp` is in seconds since 1970.
    ///
    /// The caller must have verified that the checkpoint is consistent with all others that this
    /// cosigner has signed, and that none of these is larger.
    pub fn cosign(&self, text: &str, timestamp: u64) -> Result<NoteSignature, CosignError> {
        if !(1..=MAX_TIMESTAMP).contains(&timestamp) {
            return Err(CosignError::Timestamp(timestamp));
        }
        let (checkpoint, _) = Checkpoint::parse_extended(text)?;
        let signature = match &self.key {
            PrivateKey::Ed25519(pair) => ed25519(pair, &ed25519_message(timestamp, text))?,
            PrivateKey::MlDsa44(pair) => {
                let name = self.verifier.name();
                ml_dsa_44(
                    pair,
                    &CosignedMessage::of_checkpoint(name, timestamp, &checkpoint),
                )?
            }
        };
        Ok(self.line(timestamp, &signature))
    }

    /// Returns the cosignature of a subtree, without a time.
    ///
    /// The caller must have verified that the subtree is consistent with a checkpoint that this
    /// cosigner has signed.
    pub fn cosign_subtree(
        &self,
        origin: &str,
        subtree: Subtree,
        hash: &Hash,
    ) -> Result<NoteSignature, CosignError> {
        let PrivateKey::MlDsa44(pair) = &self.key else {
            return Err(CosignError::Subtree);
        };
        let message = CosignedMessage {
            cosigner: self.verifier.name(),
            timestamp: 0,
            origin,
            subtree,
            hash: *hash,
        };
        Ok(self.line(0, &ml_dsa_44(pair, &message)?))
    }

    /// Returns the signature line of a `timestamped_signature`.
    fn line(&self, timestamp: u64, signature: &[u8]) -> NoteSignature {
        NoteSignature {
            name: self.verifier.name().to_owned(),
            key_id: self.verifier.id(),
            signature: [&timestamp.to_be_bytes(), signature].concat(),
        }
    }
}

fn ed25519(pair: &Ed25519KeyPair, message: &[u8]) -> Result<Vec<u8>, CosignError> {
    let signature = pair.try_sign(message).map_err(|_| CosignError::Signing)?;
    Ok(signature.as_ref().to_vec())
}

fn ml_dsa_44(pair: &PqdsaKeyPair, message: &CosignedMessage<'_>) -> Result<Vec<u8>, CosignError> {
    let message = message.encode().ok_or(CosignError::Origin)?;
    let mut signature = vec![0; ML_DSA_44_LENGTH];
    let signed = pair.sign(&message, &mut signature);
    signed.map_err(|_| CosignError::Signing)?;
    Ok(signature)
}

impl fmt::Debug for Cosigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cosigner({:?})", self.verifier)
    }
}
