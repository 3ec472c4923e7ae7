//! The logs that a witness knows, with the keys that sign their checkpoints.

use std::collections::HashMap;

use lucarne_ct::CheckpointVerifier;
use lucarne_tlog::{NoteSignature, SignedNote, VerifierKey};

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

    /// Returns the keys of a log; `None` if the log is unknown.
    pub fn of(&self, origin: &str) -> Option<&[TrustedKey]> {
        self.0.get(origin).map(Vec::as_slice)
    }
}

impl TrustedKey {
    /// Returns whether this key has signed the note.
    ///
    /// # Errors
    /// The reason why a signature of this key is invalid, as text.
    pub(crate) fn has_signed(&self, note: &SignedNote) -> Result<bool, String> {
        use lucarne_ct::CheckpointError::Unsigned;
        match self {
            Self::Note(key) => match key.verify(note) {
                Ok(timestamp) => Ok(timestamp.is_some()),
                Err(error) => Err(error.to_string()),
            },
            Self::Ct(verifier) => match verifier.verify(note.encode().as_bytes()) {
                Ok(_) => Ok(true),
                Err(Unsigned) => Ok(false),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// Returns the lines of this key that [`has_signed`](Self::has_signed) verifies.
    pub(crate) fn lines(&self, note: &SignedNote) -> Vec<NoteSignature> {
        match self {
            Self::Note(key) => {
                let by = |line: &&NoteSignature| line.name == key.name() && line.key_id == key.id();
                note.signatures.iter().filter(by).cloned().collect()
            }
            Self::Ct(verifier) => verifier.signature_line(note).cloned().into_iter().collect(),
        }
    }
}
