//! A verified checkpoint of this log.

use bytes::Bytes;
use lucarne_ct::{CheckpointError, verify_checkpoint};
use lucarne_signer::Head;
use lucarne_tlog::Checkpoint;

use crate::config::LogConfig;
use crate::error::inconsistency::SignedTime;
use crate::status::state::Published;

/// A signed checkpoint that has been verified.
pub(crate) struct VerifiedCheckpoint {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) timestamp_ms: u64,
    pub(crate) note: Bytes,
}

impl VerifiedCheckpoint {
    /// Verifies a checkpoint of this log.
    ///
    /// # Errors
    /// If the note is not a valid checkpoint of this log.
    pub(crate) fn verify(
        note: Bytes,
        config: &LogConfig,
    ) -> Result<VerifiedCheckpoint, CheckpointError> {
        let (checkpoint, timestamp_ms) =
            verify_checkpoint(&note, &config.origin, config.key.public_key_spki())?;
        Ok(VerifiedCheckpoint {
            checkpoint,
            timestamp_ms,
            note,
        })
    }

    /// Returns the tree head in the checkpoint.
    pub(crate) fn head(&self) -> Head {
        Head {
            size: self.checkpoint.size,
            root: self.checkpoint.root,
            timestamp_ms: self.timestamp_ms,
        }
    }

    /// Returns the size of the tree and the time of the signature.
    pub(crate) fn signed_time(&self) -> SignedTime {
        SignedTime {
            size: self.checkpoint.size,
            timestamp_ms: self.timestamp_ms,
        }
    }

    /// Returns whether this is the `committed` checkpoint, possibly with cosignatures.
    pub(crate) fn extends(&self, committed: &[u8]) -> bool {
        self.note.starts_with(committed)
    }

    pub(crate) fn published(&self) -> Published {
        Published {
            size: self.checkpoint.size,
            root: self.checkpoint.root,
            timestamp_ms: self.timestamp_ms,
            checkpoint: self.note.clone(),
            at: std::time::Instant::now(),
        }
    }
}
