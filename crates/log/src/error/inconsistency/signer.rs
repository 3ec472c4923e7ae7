//! Contradictions between the separate signer and the log.

use crate::error::entries;
use lucarne_ct::CheckpointError;
use lucarne_tlog::Hash;

/// A contradiction that the record of a separate signer shows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerInconsistency {
    /// The record of the signer is not a checkpoint of this log.
    #[error(
        "the signer at {signer} has a record for this key that is not a checkpoint of {origin}: \
         {problem}. Either the signer's `origin` or the log's `submissionprefix` belongs to \
         another log"
    )]
    OtherLog {
        /// Path of the signer's socket.
        signer: String,
        /// The origin of the log.
        origin: String,
        /// The problem with the record.
        problem: CheckpointError,
    },
    /// The signer has signed a tree to which neither lock nor journal leads.
    #[error(
        "the signer has signed {} with the root {}, the lock ({lock}) has {} with the \
         root {}, and the journal in {storage} has no round that leads from one to the other. Lock \
         and data were rolled back (a backup was restored, or a stale replica was promoted), or \
         belong to a copy of this log. Restore the newest lock and data: the signer signs only \
         trees that extend its last tree",
        entries(.signed.0), .signed.1, .committed.0, .committed.1
    )]
    Ahead {
        /// Size and root that the signer has signed.
        signed: (u64, Hash),
        /// Location of the lock.
        lock: String,
        /// Size and root in the lock.
        committed: (u64, Hash),
        /// Location of the storage.
        storage: String,
    },
    /// The signer has signed the lost round as well.
    #[error(
        "the signer has signed the lost round as well, and signs only trees that extend this \
         round: the log cannot return to the earlier tree"
    )]
    SignedLostRound,
}
