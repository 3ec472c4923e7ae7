//! Contradictions in which the lock is wrong, older than the log, or used by another process.

use lucarne_ct::{CheckpointError, LogId};
use lucarne_storage::LeaseError;

use super::index::IndexSeen;
use crate::error::entries;

/// The number of entries of a checkpoint, and the time of its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedTime {
    /// Number of entries.
    pub size: u64,
    /// The time of the signature in Unix milliseconds.
    pub timestamp_ms: u64,
}

/// The evidence of a log that the lock does not have.
#[derive(Debug, thiserror::Error)]
pub enum LockEvidence {
    /// A checkpoint of the log is or was published.
    #[error("a checkpoint of {size} was published from {storage}", size = entries(*.size))]
    Published {
        /// Number of entries.
        size: u64,
        /// Location of the storage.
        storage: String,
    },
    /// The dedup index has entries of the log.
    #[error("{0}")]
    Indexed(IndexSeen),
}

/// A contradiction that shows a wrong lock, an old lock, or another process with the log's key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockInconsistency {
    /// The value in the lock is not a checkpoint of this log.
    #[error(
        "{lock} has a value for this key that is not a checkpoint of {origin}: {problem}. The \
         origin of a log never changes: if the submission prefix was changed, restore the old one"
    )]
    NoCheckpoint {
        /// Location of the lock.
        lock: String,
        /// The origin of the log.
        origin: String,
        /// The problem with the value.
        problem: CheckpointError,
    },
    /// The checkpoint that was just committed does not verify.
    #[error("{0}")]
    Committed(CheckpointError),
    /// This version cannot read the lease.
    #[error("{0}")]
    Lease(LeaseError),
    /// Other evidence shows a log that the lock does not have.
    #[error(
        "{lock} has no log with ID {log_id} ({name}), but the log exists: {evidence}. Check the \
         key and the lock in the configuration. If both are right, the lock was emptied, rolled \
         back or replaced, and perhaps the storage with it: restore the newest lock and storage. \
         Never create the log again: that signs a fork"
    )]
    Missing {
        /// Location of the lock.
        lock: String,
        /// The ID of the log.
        log_id: LogId,
        /// The log's short name.
        name: String,
        /// The evidence.
        evidence: LockEvidence,
    },
    /// Storage publishes a newer checkpoint than the lock has.
    #[error(
        "{storage} publishes a checkpoint of {} signed at {}, the lock ({lock}) has only \
         {} signed at {}{}. The lock was rolled back, it belongs to a copy of this log, or \
         another process signs with this log's key{}: then stop that process for good. Restore the \
         newest lock database; never start the log with an older one: it would sign a fork",
        entries(.published.size), .published.timestamp_ms, entries(.committed.size),
        .committed.timestamp_ms,
        if *.forked { ", with another root" } else { "" }, perhaps(.other)
    )]
    OlderThanStorage {
        /// Location of the storage.
        storage: String,
        /// Location of the lock.
        lock: String,
        /// The published checkpoint.
        published: SignedTime,
        /// The checkpoint in the lock.
        committed: SignedTime,
        /// Whether both checkpoints have the same size and different roots.
        forked: bool,
        /// The other process; `None` if unknown.
        other: Option<String>,
    },
    /// Storage has a tile beyond the tree of the lock.
    #[error(
        "{storage} has {tile}, beyond the {size} of the checkpoint in the lock ({lock}). \
         The lock was rolled back, or it belongs to a copy of this log. Restore the newest lock \
         database; never start the log with an older one: it would sign a fork",
        size = entries(*.size)
    )]
    OlderThanTile {
        /// Location of the storage.
        storage: String,
        /// Path of the tile.
        tile: String,
        /// Number of entries in the lock.
        size: u64,
        /// Location of the lock.
        lock: String,
    },
    /// The journal has a round that was staged on a newer tree than the lock has.
    #[error(
        "the journal in {storage} continues from {}{}, signed before, but the lock ({lock}) has \
         only {size}. The lock was rolled back (a backup was restored, or a stale replica was \
         promoted), or it belongs to a copy of this log. Restore the newest lock database; never \
         start the log with an older one: it would sign a fork",
        entries(*.from), if .from == .size { " with another root" } else { "" }
    )]
    OlderThanJournal {
        /// Location of the storage.
        storage: String,
        /// Number of entries before the round.
        from: u64,
        /// Location of the lock.
        lock: String,
        /// Number of entries in the lock.
        size: u64,
    },
    /// Another process has published an older tree with a later signature.
    #[error(
        "{storage} publishes a checkpoint of {} signed at {}, after this log had signed a \
         checkpoint of {} at {}: another process signs with this log's key{}. Stop that \
         process for good; if it has issued SCTs for entries that are not here, this key has \
         signed a fork",
        entries(.published.size), .published.timestamp_ms, entries(.own.size), .own.timestamp_ms,
        perhaps(.other)
    )]
    Shared {
        /// Location of the storage.
        storage: String,
        /// The published checkpoint.
        published: SignedTime,
        /// The round that this log signed before.
        own: SignedTime,
        /// The other process; `None` if unknown.
        other: Option<String>,
    },
    /// Storage and journal have all rounds that the checkpoint in the lock includes.
    #[error(
        "storage and journal in {storage} have all {size} of the checkpoint in the lock: \
         no round is lost",
        size = entries(*.size)
    )]
    NothingLost {
        /// Location of the storage.
        storage: String,
        /// Number of entries in the lock.
        size: u64,
    },
}

/// Names the other process, if one is known, as the end of a clause.
fn perhaps(other: &Option<String>) -> String {
    let named = |holder| format!(", perhaps {holder}");
    other.as_ref().map_or_else(String::new, named)
}
