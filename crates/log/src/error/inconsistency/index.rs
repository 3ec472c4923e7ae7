//! Contradictions between the dedup index and the log.

use std::path::PathBuf;

use lucarne_ct::LogId;
use lucarne_tlog::Hash;
use lucarne_x509::text::counted;

use crate::error::entries;
use crate::error::read_error::ReadError;

/// The entries of a log that its dedup index has seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the dedup index in {} has seen {} of the log",
    .path.display(), counted(*.entries, "entry")
)]
pub struct IndexSeen {
    /// Directory of the index.
    pub path: PathBuf,
    /// Number of entries.
    pub entries: u64,
}

/// A contradiction that the dedup index shows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexInconsistency {
    /// The index has entries of a log that is to be created.
    #[error(
        "this log exists: {0}. Lock and storage do not have it: they were emptied, rolled back, \
         or belong to another log. Restore the newest ones; a new log with this key would fork the \
         existing log. Only if the existing log was never in use, as in a test, move the index \
         away"
    )]
    LogExists(IndexSeen),
    /// The index belongs to another log.
    #[error(
        "the dedup index in {} belongs to the log with ID {}, and the key of this log (`secret`) \
         has ID {owner}: configure the right key, or give this log its own `cache`",
        .path.display(), .found
    )]
    OtherLog {
        /// Directory of the index.
        path: PathBuf,
        /// The ID of the index's log.
        found: LogId,
        /// The ID of this log.
        owner: LogId,
    },
    /// The index has seen more entries than the log has.
    #[error(
        "the dedup index in {} has seen {} of this log, the lock ({lock}) has only \
         {size}. Lock and storage were rolled back, or the index belongs to a copy of this log \
         that continued. Restore the newest lock and storage; never start the log with older ones: \
         it would sign a fork. Only if the log has certainly never signed a tree \
         larger than {size}, move {} away, and it is rebuilt. The log signs nothing until then",
        .seen.path.display(), entries(.seen.entries), .seen.path.display()
    )]
    Newer {
        /// The index.
        seen: IndexSeen,
        /// Location of the lock.
        lock: String,
        /// Number of entries in the lock.
        size: u64,
    },
    /// Unreadable tiles prevent the comparison of index and log.
    #[error(
        "cannot verify that the dedup index in {} belongs to the history of this log: {problem} \
         (in {storage}). Restore that tile from a copy; the log signs nothing until then",
        .path.display()
    )]
    Unverifiable {
        /// Directory of the index.
        path: PathBuf,
        /// The problem with the tiles.
        problem: ReadError,
        /// Location of the storage.
        storage: String,
    },
    /// The tree of the index is not the beginning of the log.
    #[error(
        "the dedup index in {} comes from another history of this log: the root of its \
         {size} was {root}, but the root of the first {size} of the tree in the lock ({lock}) is \
         {signed_root}. Either lock and storage were restored or swapped: restore the newest ones, \
         because the log would fork the entries that were signed since. Or the cache came from \
         elsewhere: if that is certain, move {} away, and it is rebuilt. The log signs nothing \
         until then",
        .path.display(), .path.display(), size = entries(*.size)
    )]
    OtherHistory {
        /// Directory of the index.
        path: PathBuf,
        /// Number of entries of the index.
        size: u64,
        /// Root of the index.
        root: Hash,
        /// Location of the lock.
        lock: String,
        /// Root of the first `size` entries of the log.
        signed_root: Hash,
    },
    /// Too many damaged indices are kept.
    #[error(
        "the dedup index {} cannot be used, and {most} damaged indices are already kept beside \
         it: find the cause (memory, disk), and remove the kept indices",
        .path.display()
    )]
    TooManyDamaged {
        /// Directory of the index.
        path: PathBuf,
        /// Maximum number of kept indices.
        most: usize,
    },
}
