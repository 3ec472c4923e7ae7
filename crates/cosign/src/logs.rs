//! The logs that a witness knows, with the keys that sign their checkpoints.

use std::collections::HashMap;

use lucarne_ct::CheckpointVerifier;
use lucarne_tlog::{KeyType, NoteSignature, SignedNote, VerifierKey};

/// The keys of all known logs, by origin.
#[derive(Debug, Default)]
pub struct LogKeys(HashMap<String, Vec<TrustedKey>>);

/// A key that signs the checkpoints of a log.
#[derive(Debug)]
pub enum TrustedKey {
    /// The key of a transparency log.
    Note(VerifierKey),
    /// The key of a static CT log, whose checkpoints have signatures of RFC 6962 (type `05`).
    Ct(CheckpointVerifier),
}

impl LogKeys {
    /// Adds a key of the log with this origin.
    pub fn add(&mut self, origin: &str, key: TrustedKey) {
        self.0.entry(origin.to_owned()).or_default().push(key);
    }

    /// Returns the origins of all known logs.
    pub(crate) fn origins(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the keys of a log; `None` if the log is unknown.
    pub fn of(&self, origin: &str) -> Option<&[TrustedKey]> {
        self.0.get(origin).map(Vec::as_slice)
    }
}

impl TrustedKey {
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
