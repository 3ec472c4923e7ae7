//! The signature of a checkpoint: a tree head signature of RFC 6962, section 3.5, in a signed note
//! (static-ct-api, "Checkpoints").

use base64_simd::STANDARD;
use lucarne_tlog::{Checkpoint, Hash, InvalidSignature, NoteError, NoteSignature, SignedNote};
use serde::Deserialize;

use crate::public_key::{KeyError, LogId, PublicKey};

/// The signature type of RFC 6962 tree heads in signed notes.
pub(crate) const TREE_HEAD: u8 = 5;

/// Returns the TreeHeadSignature: version v1, signature_type tree_hash, timestamp, size, root.
pub(crate) fn tree_head(timestamp: u64, size: u64, root: &Hash) -> Vec<u8> {
    let mut message = Vec::with_capacity(50);
    message.extend_from_slice(&[0, 1]);
    message.extend_from_slice(&timestamp.to_be_bytes());
    message.extend_from_slice(&size.to_be_bytes());
    message.extend_from_slice(&root.0);
    message
}

/// The reasons why a checkpoint is not a valid checkpoint of this log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The bytes are not a signed note.
    #[error("the checkpoint is not a signed note: {0}")]
    Note(#[from] NoteError),
    /// The text of the note is not a checkpoint of three lines.
    #[error("{0}")]
    Text(#[from] lucarne_tlog::CheckpointError),
    /// The checkpoint belongs to another log.
    #[error("the checkpoint's origin is {found:?}, expected {expected:?}")]
    Origin {
        /// Origin of the expected log.
        expected: String,
        /// Origin in the checkpoint.
        found: String,
    },
    /// There is no signature line with the log's name and key.
    #[error("no signature by the log's key among the checkpoint's signatures")]
    Unsigned,
    /// The signature with the log's name and key does not verify.
    #[error("the log's signature on the checkpoint does not verify")]
    Signature,
    /// The signature with the log's name and key has this number of bytes, too few for a timestamp.
    #[error(
        "the log's signature on the checkpoint has no timestamp: expected at least 8 bytes, found \
         {0}"
    )]
    NoTimestamp(usize),
    /// The bytes are not a response to `get-sth`; the reason.
    #[error("not a signed tree head: {0}")]
    Json(String),
    /// The ML-DSA-44 signature with the log's name and key does not verify.
    #[error("the log's second signature on the checkpoint does not verify: {0}")]
    Second(#[from] InvalidSignature),
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// A signed tree head, parsed from a checkpoint. The signature line of the checkpoint
/// (`RFC6962NoteSignature`) has the timestamp, and the signature over the TreeHeadSignature
/// structure (static-ct-api, "Checkpoints").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTreeHead {
    /// Size and root of the tree, and the origin of the log.
    pub checkpoint: Checkpoint,
    /// Milliseconds since 1970.
    pub timestamp: u64,
    /// DigitallySigned: algorithms, length and signature.
    pub signature: Vec<u8>,
}

impl SignedTreeHead {
    /// Returns the tree head of a checkpoint of the log with this origin and ID, without verifying
    /// its signature.
    ///
    /// # Errors
    /// If the note is not a checkpoint of this log, or has no signature by the log's key.
    pub fn of_checkpoint(
        note: &[u8],
        origin: &str,
        log_id: &LogId,
    ) -> Result<Self, CheckpointError> {
        let note = SignedNote::parse(note)?;
        let checkpoint = Checkpoint::parse(&note.text)?;
        if checkpoint.origin != origin {
            return Err(CheckpointError::Origin {
                expected: origin.to_owned(),
                found: checkpoint.origin,
            });
        }
        let key_id = lucarne_tlog::note::key_id(origin, TREE_HEAD, &log_id.0);
        let signature = note
            .signatures_by(origin, key_id)
            .next()
            .ok_or(CheckpointError::Unsigned)?;
        let (timestamp, signature) = signature
            .split_first_chunk()
            .ok_or(CheckpointError::NoTimestamp(signature.len()))?;
        Ok(Self {
            checkpoint,
            timestamp: u64::from_be_bytes(*timestamp),
            signature: signature.to_vec(),
        })
    }

    /// Parses a response to `get-sth` (RFC 6962, section 4.3), and verifies its signature. The
    /// origin is empty.
    ///
    /// # Errors
    /// [`CheckpointError::Json`], [`CheckpointError::Signature`].
    pub fn verify_json(json: &[u8], key: &PublicKey) -> Result<Self, CheckpointError> {
        let wrong = |why: &str| CheckpointError::Json(why.to_owned());
        let parsed: TreeHead =
            serde_json::from_slice(json).map_err(|error| wrong(&error.to_string()))?;
        let root = Hash::from_base64(&parsed.sha256_root_hash);
        let root = root.ok_or_else(|| wrong("`sha256_root_hash` is not 32 bytes in base64"))?;
        let signature = STANDARD.decode_to_vec(parsed.tree_head_signature);
        let signature = signature.map_err(|_| wrong("`tree_head_signature` is not base64"))?;
        let (size, timestamp) = (parsed.tree_size, parsed.timestamp);
        if !key.verify(&tree_head(timestamp, size, &root), &signature) {
            return Err(CheckpointError::Signature);
        }
        let origin = String::new();
        Ok(Self {
            checkpoint: Checkpoint { origin, size, root },
            timestamp,
            signature,
        })
    }

    /// Returns the response to `get-sth` (RFC 6962, section 4.3).
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let Checkpoint { size, root, .. } = &self.checkpoint;
        let timestamp = self.timestamp;
        let mut json = format!(
            "{{\"tree_size\":{size},\"timestamp\":{timestamp},\"sha256_root_hash\":\"{root}\",\
             \"tree_head_signature\":\""
        )
        .into_bytes();
        STANDARD.encode_append(&self.signature, &mut json);
        json.extend_from_slice(b"\"}");
        json
    }
}

/// The fields of a response to `get-sth`.
#[derive(Deserialize)]
struct TreeHead {
    tree_size: u64,
    timestamp: u64,
    sha256_root_hash: String,
    tree_head_signature: String,
}

/// Verifies the checkpoints of one log.
///
/// # Examples
///
/// ```
/// use lucarne_ct::{CheckpointVerifier, LogKey};
/// use lucarne_tlog::EMPTY_ROOT;
///
/// let key = LogKey::from_seed(&[7; 32])?;
/// let signed = key.sign_checkpoint("log.example/2026h2", 0, &EMPTY_ROOT, 1_767_225_600_000)?;
///
/// let verifier = CheckpointVerifier::new("log.example/2026h2", key.public_key_spki())?;
/// let (checkpoint, timestamp) = verifier.verify(signed.as_bytes())?;
/// assert_eq!((checkpoint.size, timestamp), (0, 1_767_225_600_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckpointVerifier {
    origin: String,
    key: PublicKey,
}

impl CheckpointVerifier {
    /// Creates a verifier for the log with this origin and SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`KeyError::NotP256`].
    pub fn new(origin: &str, spki: &[u8]) -> Result<Self, KeyError> {
        Ok(Self {
            origin: origin.to_owned(),
            key: PublicKey::from_spki(spki)?,
        })
    }

    /// Returns the public key of the log as a SubjectPublicKeyInfo in DER.
    pub fn spki(&self) -> &[u8] {
        self.key.spki()
    }

    /// Returns the line of a note that [`verify`](Self::verify) verifies.
    pub fn signature_line<'n>(&self, note: &'n SignedNote) -> Option<&'n NoteSignature> {
        let key_id = lucarne_tlog::note::key_id(&self.origin, TREE_HEAD, &self.key.log_id().0);
        let mut lines = note.signatures.iter();
        lines.find(|line| line.name == self.origin && line.key_id == key_id)
    }

    /// Verifies a checkpoint; returns the checkpoint and its timestamp in milliseconds since 1970.
    /// Other signatures, such as those of witnesses, are ignored.
    ///
    /// # Errors
    /// Every error except [`CheckpointError::Key`].
    pub fn verify(&self, note: &[u8]) -> Result<(Checkpoint, u64), CheckpointError> {
        let sth = SignedTreeHead::of_checkpoint(note, &self.origin, &self.key.log_id())?;
        let Checkpoint { size, root, .. } = &sth.checkpoint;
        let message = tree_head(sth.timestamp, *size, root);
        if self.key.verify(&message, &sth.signature) {
            Ok((sth.checkpoint, sth.timestamp))
        } else {
            Err(CheckpointError::Signature)
        }
    }
}

/// Verifies a single checkpoint. Use a [`CheckpointVerifier`] to verify several.
///
/// # Errors
/// The errors of [`CheckpointVerifier::new`] and [`CheckpointVerifier::verify`].
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
        // The second signature is ML-DSA-44.
        assert_eq!((lines[3], lines[6], lines.len()), ("", "", 7));
        let signed = SignedNote::parse(note.as_bytes()).unwrap();
        let cosigner = key.cosigner(ORIGIN).unwrap().unwrap();
        assert_eq!(cosigner.verifier().verify(&signed), Ok(Some(1_767_225_600)));
        let (checkpoint, timestamp) =
            verify_checkpoint(note.as_bytes(), ORIGIN, key.public_key_spki()).unwrap();
        assert_eq!((checkpoint.size, checkpoint.root), (1, root));
        assert_eq!(timestamp, 1_767_225_600_000);

        // Any additional cosignature is ignored.
        let witnessed = format!("{note}— witness.example AAAAAAAAAAAA\n");
        verify_checkpoint(witnessed.as_bytes(), ORIGIN, key.public_key_spki()).unwrap();
    }

    /// A key in PEM and a key in a token have no seed.
    #[test]
    fn a_key_without_seed_signs_once() {
        let key = LogKey::from_pem(crate::key::tests::SEC1).unwrap();
        let root = lucarne_tlog::leaf_hash(b"leaf");
        let note = key.sign_checkpoint(ORIGIN, 1, &root, 5000).unwrap();
        assert_eq!(
            SignedNote::parse(note.as_bytes()).unwrap().signatures.len(),
            1
        );
        verify_checkpoint(note.as_bytes(), ORIGIN, key.public_key_spki()).unwrap();
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
        // A signature of this key without the timestamp of RFC6962NoteSignature.
        let mut short = SignedNote::parse(note.as_bytes()).unwrap();
        short.signatures[0].signature.truncate(7);
        assert_eq!(
            verify(&short.encode(), ORIGIN, &key),
            CheckpointError::NoTimestamp(7)
        );
    }

    #[test]
    fn the_signature_is_the_checkpoints_and_verifies_as_an_rfc_6962_tree_head() {
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let root = lucarne_tlog::leaf_hash(b"leaf");
        let note = key.sign_checkpoint(ORIGIN, 3, &root, 5000).unwrap();
        let note = format!("{note}— witness.example AAAAAAAAAAAA\n");
        let sth = SignedTreeHead::of_checkpoint(note.as_bytes(), ORIGIN, &key.log_id()).unwrap();
        let verifier = PublicKey::from_spki(key.public_key_spki()).unwrap();
        let verified = SignedTreeHead::verify_json(&sth.to_json(), &verifier).unwrap();
        let (found, root_of) = (verified.checkpoint.size, verified.checkpoint.root);
        assert_eq!((found, root_of, verified.timestamp), (3, root, 5000));
        let other = String::from_utf8(sth.to_json())
            .unwrap()
            .replace(":3,", ":4,");
        let refused = SignedTreeHead::verify_json(other.as_bytes(), &verifier);
        assert_eq!(refused, Err(CheckpointError::Signature));
        let json: serde_json::Value = serde_json::from_slice(&sth.to_json()).unwrap();
        assert_eq!(
            (&json["tree_size"], &json["timestamp"]),
            (&3.into(), &5000.into())
        );
        let bytes = |field: &str| {
            let text = json[field].as_str().unwrap();
            STANDARD.decode_to_vec(text).unwrap()
        };
        assert_eq!(bytes("sha256_root_hash"), root.0);
        // The digitally-signed struct { v1(0), tree_hash(1), uint64, uint64, opaque[32] }, built by
        // hand.
        let mut signed = vec![0, 1];
        signed.extend([0, 0, 0, 0, 0, 0, 0x13, 0x88]);
        signed.extend([0, 0, 0, 0, 0, 0, 0, 3]);
        signed.extend(root.0);
        assert!(verifier.verify(&signed, &bytes("tree_head_signature")));
    }

    #[test]
    fn another_logs_checkpoint_has_none() {
        let [key, other] = [7, 8].map(|seed| LogKey::from_seed(&[seed; 32]).unwrap());
        let root = lucarne_tlog::leaf_hash(b"leaf");
        let note = key.sign_checkpoint(ORIGIN, 3, &root, 5000).unwrap();
        let of = |origin: &str, key: &LogKey| {
            SignedTreeHead::of_checkpoint(note.as_bytes(), origin, &key.log_id()).unwrap_err()
        };
        assert!(matches!(of(ORIGIN, &other), CheckpointError::Unsigned));
        assert!(matches!(of("other", &key), CheckpointError::Origin { .. }));
    }
}
