//! The record of an origin: the latest cosigned checkpoint, as a signed note in the lock.

use lucarne_ct::sha256;
use lucarne_storage::LogId;
use lucarne_tlog::{Checkpoint, Cosigner, SignedNote};

/// The latest cosigned checkpoint of a log.
pub(super) struct Record {
    /// The note in the lock.
    pub(super) stored: Vec<u8>,
    pub(super) checkpoint: Checkpoint,
    /// Latest time of a cosignature, in seconds since 1970. 0 if all keys of the witness are new.
    pub(super) time: u64,
}

impl Record {
    /// Parses the note in the lock.
    ///
    /// # Errors
    /// The reason why the note is not a record of this origin, as text.
    pub(super) fn parse(
        stored: Vec<u8>,
        origin: &str,
        cosigners: &[Cosigner],
    ) -> Result<Self, String> {
        let note = SignedNote::parse(&stored).map_err(|error| error.to_string())?;
        let parsed = Checkpoint::parse_extended(&note.text);
        let (checkpoint, _) = parsed.map_err(|error| error.to_string())?;
        if checkpoint.origin != origin {
            return Err(format!("the origin is {:?}", checkpoint.origin));
        }
        let mut time = 0;
        for cosigner in cosigners {
            let verified = cosigner.verifier().verify(&note);
            time = time.max(verified.map_err(|error| error.to_string())?.unwrap_or(0));
        }
        Ok(Self {
            stored,
            checkpoint,
            time,
        })
    }
}

/// Returns the key of an origin in the lock, which is also the name of its checkpoint in URLs.
pub(super) fn origin_hash(origin: &str) -> LogId {
    sha256(&[origin.as_bytes()])
}
