//! Verifier keys ("vkeys"): the public keys of logs and cosigners as text
//! (C2SP signed-note and tlog-cosignature, main of 2026-07-22).

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::signature::{ED25519, ML_DSA_44, ParsedPublicKey};
use base64_simd::STANDARD;

use crate::checkpoint::Checkpoint;
use crate::cosignature::{self, CosignedMessage};
use crate::hash::Hash;
use crate::note::{NoteSignature, SignedNote, is_key_name, key_id};
use crate::subtree::Subtree;

/// The signature types of verifier keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// Ed25519 over the text of any note.
    Ed25519 = 0x01,
    /// Ed25519 over a checkpoint and a timestamp.
    Ed25519Cosigner = 0x04,
    /// ML-DSA-44 over a subtree and, if the subtree is a checkpoint, a timestamp.
    MlDsa44Cosigner = 0x06,
}

impl KeyType {
    fn of_byte(byte: u8) -> Option<Self> {
        let types = [Self::Ed25519, Self::Ed25519Cosigner, Self::MlDsa44Cosigner];
        types.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Returns the length of the public key in bytes.
    fn key_length(self) -> usize {
        match self {
            Self::Ed25519 | Self::Ed25519Cosigner => 32,
            Self::MlDsa44Cosigner => 1312,
        }
    }
}

/// The public key of a log or a cosigner, with its name.
///
/// `Display` writes the verifier key that [`parse`](str::parse) reads:
/// `<name>+<key ID in hexadecimal digits>+<base64 of type and key>`.
///
/// # Examples
///
/// ```
/// use lucarne_tlog::{SignedNote, VerifierKey};
///
/// let key = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
/// let key: VerifierKey = key.parse()?;
/// let note = SignedNote::parse(
///     "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfX\
///      ppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n".as_bytes(),
/// )?;
/// assert_eq!(key.verify(&note), Ok(Some(0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct VerifierKey {
    name: String,
    id: [u8; 4],
    kind: KeyType,
    key: ParsedPublicKey,
}

/// The reasons why a text is not a verifier key, or why bytes are not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text does not have the three parts.
    #[error("the verifier key does not have the form NAME+ID+KEY")]
    Parts,
    /// The name of the key is not allowed in notes.
    #[error("the name of the key is empty, or has a space, a control character or a plus sign")]
    Name,
    /// The cosigned message has room for 255 bytes.
    #[error("the name of the key has more than 255 bytes")]
    LongName,
    /// The key ID is not the one of this name and key.
    #[error("the key ID of this name and key is {}", digits(.0))]
    Id([u8; 4]),
    /// The key is not standard base64 of a type and a key.
    #[error("the key is not standard base64")]
    Base64,
    /// The signature type is unknown.
    #[error("the signature type is {0:#04x}; supported are 0x01, 0x04 and 0x06")]
    Type(u8),
    /// The public key or the seed cannot be used.
    #[error("the key is not a valid key of its type")]
    Key,
}

/// The reasons why a signature line of a known key invalidates a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSignature {
    /// The signature does not verify.
    #[error("a signature of a known key does not verify")]
    Signature,
    /// The signature is shorter or longer than the signatures of this type.
    #[error("a signature of a known key has {0} bytes, which is not the length of its type")]
    Length(usize),
    /// The timestamp is greater than 2^63 - 1, or is not zero in the cosignature of a subtree.
    #[error("a cosignature has the timestamp {0}, which is not allowed")]
    Timestamp(u64),
    /// The signature belongs to another key.
    #[error("the signature has another name or key ID")]
    OtherKey,
    /// The key cannot sign this text: only notes that are checkpoints have cosignatures, and only
    /// cosigners with ML-DSA-44 sign subtrees.
    #[error("a known key signed a text that its type does not sign")]
    Text,
}

impl VerifierKey {
    /// Creates the verifier key of this name and public key.
    pub fn new(name: &str, kind: KeyType, public_key: &[u8]) -> Result<Self, KeyError> {
        if !is_key_name(name) {
            return Err(KeyError::Name);
        }
        if kind == KeyType::MlDsa44Cosigner && name.len() > cosignature::MAX_NAME {
            return Err(KeyError::LongName);
        }
        if public_key.len() != kind.key_length() {
            return Err(KeyError::Key);
        }
        let key = match kind {
            KeyType::Ed25519 | KeyType::Ed25519Cosigner => {
                ParsedPublicKey::new(&ED25519, public_key)
            }
            KeyType::MlDsa44Cosigner => ParsedPublicKey::new(&ML_DSA_44, public_key),
        };
        Ok(Self {
            name: name.to_owned(),
            id: key_id(name, kind as u8, public_key),
            kind,
            key: key.map_err(|_| KeyError::Key)?,
        })
    }

    /// Returns the name of the key. The name of a log's key is the origin of the log.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the identifier of the key in signature lines.
    #[must_use]
    pub fn id(&self) -> [u8; 4] {
        self.id
    }

    /// Returns the signature type of the key.
    #[must_use]
    pub fn key_type(&self) -> KeyType {
        self.kind
    }

    /// Returns the bytes of the public key.
    #[must_use]
    pub fn public_key(&self) -> &[u8] {
        self.key.as_ref()
    }

    /// Verifies all signature lines of this key. Returns the latest timestamp in seconds since
    /// 1970, which is 0 if the signatures have no timestamp; `None` if the note has no line of this
    /// key. Lines of other keys are ignored, even if they have the same name or ID.
    ///
    /// # Errors
    /// If a line of this key is invalid. The note must then be rejected.
    pub fn verify(&self, note: &SignedNote) -> Result<Option<u64>, InvalidSignature> {
        note.signatures_by(&self.name, self.id)
            .map(|signature| self.verify_text(&note.text, signature))
            .try_fold(None, |latest, timestamp| Ok(latest.max(Some(timestamp?))))
    }

    fn verify_text(&self, text: &str, signature: &[u8]) -> Result<u64, InvalidSignature> {
        if self.kind == KeyType::Ed25519 {
            return self.verify_message(text.as_bytes(), signature).map(|()| 0);
        }
        let (timestamp, signature) = cosignature::split_timestamp(signature)
            .ok_or(InvalidSignature::Length(signature.len()))?;
        if timestamp > cosignature::MAX_TIMESTAMP {
            return Err(InvalidSignature::Timestamp(timestamp));
        }
        let (checkpoint, _) =
            Checkpoint::parse_extended(text).map_err(|_| InvalidSignature::Text)?;
        let message = match self.kind {
            KeyType::MlDsa44Cosigner => {
                CosignedMessage::of_checkpoint(&self.name, timestamp, &checkpoint).encode()
            }
            _ => Some(cosignature::ed25519_message(timestamp, text)),
        };
        self.verify_message(&message.ok_or(InvalidSignature::Text)?, signature)?;
        Ok(timestamp)
    }

    /// Verifies that `line` is the cosignature of this key on a subtree of the log with this
    /// origin. The cosignature has the timestamp zero, or no timestamp.
    ///
    /// # Errors
    /// If the line belongs to another key, or if the signature is invalid.
    pub fn verify_subtree(
        &self,
        origin: &str,
        subtree: Subtree,
        hash: &Hash,
        line: &NoteSignature,
    ) -> Result<(), InvalidSignature> {
        if line.name != self.name || line.key_id != self.id {
            return Err(InvalidSignature::OtherKey);
        }
        if self.kind != KeyType::MlDsa44Cosigner {
            return Err(InvalidSignature::Text);
        }
        // A proposed revision (C2SP pull request 346) removes the timestamp: both forms are valid.
        let signature = match cosignature::split_timestamp(&line.signature) {
            Some((0, signature)) => signature,
            Some((timestamp, signature)) if signature.len() == cosignature::ML_DSA_44_LENGTH => {
                return Err(InvalidSignature::Timestamp(timestamp));
            }
            _ => &line.signature,
        };
        let message = CosignedMessage {
            cosigner: &self.name,
            timestamp: 0,
            origin,
            subtree,
            hash: *hash,
        };
        let message = message.encode().ok_or(InvalidSignature::Text)?;
        self.verify_message(&message, signature)
    }

    fn verify_message(&self, message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let length = match self.kind {
            KeyType::MlDsa44Cosigner => cosignature::ML_DSA_44_LENGTH,
            _ => cosignature::ED25519_LENGTH,
        };
        if signature.len() != length {
            return Err(InvalidSignature::Length(signature.len()));
        }
        let verified = self.key.verify_sig(message, signature);
        verified.map_err(|_| InvalidSignature::Signature)
    }
}

impl PartialEq for VerifierKey {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.name == other.name
            && self.public_key() == other.public_key()
    }
}

impl Eq for VerifierKey {}

impl FromStr for VerifierKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (name, rest) = text.split_once('+').ok_or(KeyError::Parts)?;
        let (id, key) = rest.split_once('+').ok_or(KeyError::Parts)?;
        let key = STANDARD.decode_to_vec(key).map_err(|_| KeyError::Base64)?;
        let (byte, public_key) = key.split_first().ok_or(KeyError::Base64)?;
        let kind = KeyType::of_byte(*byte).ok_or(KeyError::Type(*byte))?;
        let parsed = Self::new(name, kind, public_key)?;
        if id != digits(&parsed.id) {
            return Err(KeyError::Id(parsed.id));
        }
        Ok(parsed)
    }
}

fn digits(id: &[u8; 4]) -> String {
    format!("{:08x}", u32::from_be_bytes(*id))
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = [&[self.kind as u8], self.public_key()].concat();
        let key = STANDARD.encode_to_string(key);
        write!(f, "{}+{}+{key}", self.name, digits(&self.id))
    }
}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifierKey({}+{})", self.name, digits(&self.id))
    }
}
