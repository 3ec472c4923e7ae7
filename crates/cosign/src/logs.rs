//! The logs that a witness knows, with the keys that sign their checkpoints.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base64_simd::STANDARD;
use lucarne_ct::{CheckpointVerifier, sha256};
use lucarne_tlog::{KeyType, NoteSignature, SignedNote, VerifierKey};

/// First byte of a public key in DER.
const SEQUENCE: u8 = 0x30;

/// The keys of all known logs.
#[derive(Clone, Debug, Default)]
pub struct LogKeys {
    by_origin: HashMap<String, Vec<Arc<TrustedKey>>>,
    /// The origins, by their hashes in URLs.
    origins: HashMap<[u8; 32], String>,
}

/// The origin and a key of a log.
pub type ListedLog = (String, Arc<TrustedKey>);

/// A key that signs the checkpoints of a log.
#[derive(Debug)]
pub enum TrustedKey {
    /// The key of a transparency log, of any signature type.
    Note(VerifierKey),
    /// The key of a static CT log, whose checkpoints have signatures of RFC 6962 (type `05`).
    Ct(CheckpointVerifier),
}

impl LogKeys {
    /// Adds a key of the log with this origin.
    pub fn add(&mut self, origin: &str, key: impl Into<Arc<TrustedKey>>) {
        let keys = self.by_origin.entry(origin.to_owned()).or_default();
        keys.push(key.into());
        let hash = sha256(&[origin.as_bytes()]);
        self.origins.insert(hash, origin.to_owned());
    }

    /// Returns the origins of all known logs.
    pub fn origins(&self) -> impl ExactSizeIterator<Item = &str> {
        self.by_origin.keys().map(String::as_str)
    }

    /// Returns the keys of a log; `None` if the log is unknown.
    pub fn of(&self, origin: &str) -> Option<&[Arc<TrustedKey>]> {
        self.by_origin.get(origin).map(Vec::as_slice)
    }

    /// Returns the origin of the known log with this SHA-256 of its origin.
    pub fn hashed(&self, hash: &[u8; 32]) -> Option<&str> {
        self.origins.get(hash).map(String::as_str)
    }
}

/// The reasons why a text is not a key of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// The text is not a verifier key, and not a public key in base64.
    #[error("it has neither a verifier key, nor the base64 of a public key in DER: {0}")]
    Verifier(#[from] lucarne_tlog::KeyError),
    /// The public key is not the key of a static CT log.
    #[error(transparent)]
    Ct(#[from] lucarne_ct::KeyError),
}

impl TrustedKey {
    /// Parses a key of the log with this origin: a verifier key, or the public key of a static CT
    /// log (a SubjectPublicKeyInfo in base64). `Display` writes the same text.
    pub fn parse(origin: &str, text: &str) -> Result<Self, InvalidKey> {
        match text.parse() {
            Ok(verifier) => Ok(Self::Note(verifier)),
            Err(why) => {
                let der = STANDARD.decode_to_vec(text).ok();
                let spki = der.filter(|der| der.starts_with(&[SEQUENCE])).ok_or(why)?;
                Ok(Self::Ct(CheckpointVerifier::new(origin, &spki)?))
            }
        }
    }

    /// Returns the lines of this key in the note. All of them are verified.
    ///
    /// # Errors
    /// The reason why a signature of this key is invalid, as text.
    pub(crate) fn verified_lines(&self, note: &SignedNote) -> Result<Vec<NoteSignature>, String> {
        let name_and_id = match self {
            Self::Note(key) => Some((key.name(), key.id())),
            Self::Ct(verifier) => verifier
                .signature_line(note)
                .map(|line| (line.name.as_str(), line.key_id)),
        };
        let mut verified = Vec::new();
        for line in &note.signatures {
            if name_and_id == Some((&line.name, line.key_id)) {
                let alone = SignedNote {
                    text: note.text.clone(),
                    signatures: vec![line.clone()],
                };
                self.verify(&alone)?;
                verified.push(line.clone());
            }
        }
        Ok(verified)
    }

    /// Returns whether the keys are equal.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Note(one), Self::Note(other)) => one == other,
            (Self::Ct(one), Self::Ct(other)) => one.spki() == other.spki(),
            (Self::Note(_), Self::Ct(_)) | (Self::Ct(_), Self::Note(_)) => false,
        }
    }

    /// Verifies a note with a single line, which is a line of this key.
    fn verify(&self, note: &SignedNote) -> Result<(), String> {
        match self {
            Self::Note(key) => key.verify(note).map(drop).map_err(|e| e.to_string()),
            Self::Ct(verifier) => {
                let verified = verifier.verify(note.encode().as_bytes());
                verified.map(drop).map_err(|e| e.to_string())
            }
        }
    }

    /// Returns whether signatures of this key cover extension lines. ML-DSA-44 and RFC 6962
    /// signatures only cover the size and the root.
    pub(crate) fn signs_extensions(&self) -> bool {
        match self {
            Self::Note(key) => key.key_type() != KeyType::MlDsa44Cosigner,
            Self::Ct(_) => false,
        }
    }
}

impl fmt::Display for TrustedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Note(key) => key.fmt(f),
            Self::Ct(verifier) => f.write_str(&STANDARD.encode_to_string(verifier.spki())),
        }
    }
}
