//! The signature of a checkpoint: a tree head signature of RFC 6962 section 3.5 in a signed
//! note (static-ct-api, "Checkpoints").

use lucarne_tlog::{Checkpoint, Hash, NoteError, SignedNote};

use crate::public_key::{KeyError, PublicKey};

/// The signature type of RFC 6962 tree heads in signed notes.
pub(crate) const TREE_HEAD: u8 = 5;

/// TreeHeadSignature: version v1, signature_type tree_hash, timestamp, size, root.
pub(crate) fn tree_head(timestamp: u64, size: u64, root: &Hash) -> Vec<u8> {
    let mut message = Vec::with_capacity(50);
    message.extend_from_slice(&[0, 1]);
    message.extend_from_slice(&timestamp.to_be_bytes());
    message.extend_from_slice(&size.to_be_bytes());
    message.extend_from_slice(&root.0);
    message
}

/// The reasons why a checkpoint is not one of this log.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Not a signed note.
    #[error("the checkpoint is not a signed note: {0}")]
    Note(#[from] NoteError),
    /// The note's text is not a checkpoint of three lines.
    #[error("{0}")]
    Text(#[from] lucarne_tlog::CheckpointError),
    /// The checkpoint of another log.
    #[error("the checkpoint's origin is {found:?}, expected {expected:?}")]
    Origin {
        /// The log that was asked for.
        expected: String,
        /// The log that the checkpoint names.
        found: String,
    },
    /// No signature line with the log's name and key.
    #[error("no signature by the log's key among the checkpoint's signatures")]
    Unsigned,
    /// A signature line with the log's name and key, which does not verify.
    #[error("the log's signature on the checkpoint does not verify")]
    Signature,
    /// The key itself.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Verifies the checkpoints of one log.
#[derive(Debug)]
pub struct CheckpointVerifier {
    origin: String,
    key: PublicKey,
}

impl CheckpointVerifier {
    /// A verifier for the log with this origin and SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`KeyError::NotP256`].
    pub fn new(origin: &str, spki: &[u8]) -> Result<Self, KeyError> {
        Ok(Self {
            origin: origin.to_owned(),
            key: PublicKey::from_spki(spki)?,
        })
    }

    /// The checkpoint and its timestamp in milliseconds since 1970. Other signatures, as of
    /// witnesses, are passed over.
    ///
    /// # Errors
    /// Everything but [`CheckpointError::Key`].
    pub fn verify(&self, note: &[u8]) -> Result<(Checkpoint, u64), CheckpointError> {
        let note = SignedNote::parse(note)?;
        let checkpoint = Checkpoint::parse(&note.text)?;
        if checkpoint.origin != self.origin {
            return Err(CheckpointError::Origin {
                expected: self.origin.clone(),
                found: checkpoint.origin,
            });
        }
        let key_id = lucarne_tlog::note::key_id(&self.origin, TREE_HEAD, &self.key.log_id().0);
        let signature = note
            .signatures_by(&self.origin, key_id)
            .next()
            .ok_or(CheckpointError::Unsigned)?;
        let (timestamp, digitally_signed) = signature
            .split_first_chunk()
            .ok_or(CheckpointError::Signature)?;
        let timestamp = u64::from_be_bytes(*timestamp);
        let message = tree_head(timestamp, checkpoint.size, &checkpoint.root);
        match self.key.verify(&message, digitally_signed) {
            true => Ok((checkpoint, timestamp)),
            false => Err(CheckpointError::Signature),
        }
    }
}

/// Verifies one checkpoint: [`CheckpointVerifier`] for those who see only one.
///
/// # Errors
/// Those of [`CheckpointVerifier::new`] and [`CheckpointVerifier::verify`].
pub fn verify_checkpoint(
    note: &[u8],
    origin: &str,
    spki: &[u8],
) -> Result<(Checkpoint, u64), CheckpointError> {
    CheckpointVerifier::new(origin, spki)?.verify(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::LogKey;

    const ORIGIN: &str = "log.example/2026h2";

    #[test]
    fn signed_and_verified() {
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let root = lucarne_tlog::leaf_hash(b"leaf");
        let note = key
            .sign_checkpoint(ORIGIN, 1, &root, 1_767_225_600_000)
            .unwrap();
        let lines: Vec<_> = note.split('\n').collect();
        assert_eq!(lines[..2], [ORIGIN, "1"]);
        assert_eq!((lines[3], lines[5], lines.len()), ("", "", 6));
        let (checkpoint, timestamp) =
            verify_checkpoint(note.as_bytes(), ORIGIN, key.public_key_spki()).unwrap();
        assert_eq!((checkpoint.size, checkpoint.root), (1, root));
        assert_eq!(timestamp, 1_767_225_600_000);

        // A cosignature more does not matter, whatever it is.
        let witnessed = format!("{note}— witness.example AAAAAAAAAAAA\n");
        verify_checkpoint(witnessed.as_bytes(), ORIGIN, key.public_key_spki()).unwrap();
    }

    #[test]
    fn refused() {
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let other = LogKey::from_seed(&[8; 32]).unwrap();
        let root = lucarne_tlog::leaf_hash(b"leaf");
        let note = key.sign_checkpoint(ORIGIN, 1, &root, 5).unwrap();
        let verify = |note: &str, origin: &str, key: &LogKey| {
            verify_checkpoint(note.as_bytes(), origin, key.public_key_spki()).unwrap_err()
        };
        let error = verify(&note, "log.example/2026h1", &key);
        assert!(matches!(error, CheckpointError::Origin { .. }));
        assert!(matches!(
            verify(&note, ORIGIN, &other),
            CheckpointError::Unsigned
        ));
        let larger = note.replacen("\n1\n", "\n2\n", 1);
        assert!(matches!(
            verify(&larger, ORIGIN, &key),
            CheckpointError::Signature
        ));
        assert!(matches!(verify("", ORIGIN, &key), CheckpointError::Note(_)));
    }
}
