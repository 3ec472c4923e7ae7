//! Contradictions in which storage does not have the signed tree.

use std::time::Duration;

use lucarne_ct::CheckpointError;
use lucarne_signer::Head;
use lucarne_tlog::Hash;

use crate::error::entries;
use crate::error::read_error::ReadError;

/// A contradiction that shows old, damaged or foreign storage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageInconsistency {
    /// A log is to be created where a log exists.
    #[error("{storage} already has a log, which is not overwritten")]
    HoldsLog {
        /// Location of the storage.
        storage: String,
    },
    /// The storage of a signed log does not exist.
    #[error(
        "the storage ({storage}) does not exist, and the lock ({lock}) has signed {size}: \
         the {} deleted. Restore the newest storage; the log signs nothing until then",
        if *.is_bucket {
            "bucket was renamed or"
        } else {
            "directory was moved away, is not mounted, or was"
        },
        size = entries(*.size)
    )]
    Absent {
        /// Location of the storage.
        storage: String,
        /// Location of the lock.
        lock: String,
        /// Number of signed entries.
        size: u64,
        /// Whether the storage is a bucket.
        is_bucket: bool,
    },
    /// No checkpoint of the log is published.
    #[error("{storage} publishes no checkpoint of {origin}")]
    NoCheckpoint {
        /// Location of the storage.
        storage: String,
        /// The origin of the log.
        origin: String,
    },
    /// A lock cannot be created without a published checkpoint.
    #[error("{storage} publishes no checkpoint of {origin}: its lock cannot be created")]
    NoCheckpointForLock {
        /// Location of the storage.
        storage: String,
        /// The origin of the log.
        origin: String,
    },
    /// The published checkpoint belongs to another log.
    #[error(
        "{storage}/checkpoint is not a checkpoint of {origin}: {problem}. Either the directory or \
         the key belongs to another log"
    )]
    OtherLog {
        /// Location of the storage.
        storage: String,
        /// The origin of the log.
        origin: String,
        /// The problem with the checkpoint.
        problem: CheckpointError,
    },
    /// The tiles do not lead to the published checkpoint.
    #[error(
        "the tiles in {storage} do not lead to the {size} of the published checkpoint: \
         {problem}",
        size = entries(*.size)
    )]
    PublishedTree {
        /// Location of the storage.
        storage: String,
        /// Number of published entries.
        size: u64,
        /// The problem with the tiles.
        problem: TreeError,
    },
    /// Unreadable tiles prevent the comparison of the published tree with the signed tree.
    #[error(
        "{storage} publishes a checkpoint of {size}, and the log cannot verify that it \
         leads to the {signed} that the lock ({lock}) has signed: {problem}. Storage was \
         rolled back, emptied or damaged, or another process published there: the log would sign a \
         fork. Restore the newest storage; the log signs nothing until then",
        size = entries(*.size), signed = entries(*.signed)
    )]
    Unverifiable {
        /// Location of the storage.
        storage: String,
        /// Number of published entries.
        size: u64,
        /// Number of signed entries.
        signed: u64,
        /// Location of the lock.
        lock: String,
        /// The problem with the tiles.
        problem: TreeError,
    },
    /// The published tree is not the beginning of the signed tree.
    #[error(
        "{storage} publishes a checkpoint of {size} with the root {root}, which does not \
         lead to the {signed} that the lock ({lock}) has signed: {problem}. Another \
         process published there with another lock, or storage belongs to a copy of this log. \
         Find out which lock is the right one; with the other lock, the log would sign a fork",
        size = entries(*.size), signed = entries(*.signed)
    )]
    OtherHistory {
        /// Location of the storage.
        storage: String,
        /// Number of published entries.
        size: u64,
        /// Published root.
        root: Hash,
        /// Number of signed entries.
        signed: u64,
        /// Location of the lock.
        lock: String,
        /// The difference between the trees.
        problem: HistoryError,
    },
    /// Neither journal nor storage leads to the signed tree.
    #[error(
        "the lock ({lock}) has signed {size}, and neither journal nor storage ({storage}) \
         lead there: {problem}. Storage was rolled back, emptied, damaged, or belongs to another \
         log. {}Restore the newest storage; the log signs nothing until then",
        repair(.files), size = entries(*.size)
    )]
    BehindLock {
        /// Location of the lock.
        lock: String,
        /// Number of signed entries.
        size: u64,
        /// Location of the storage.
        storage: String,
        /// The problem with the tiles.
        problem: TreeError,
        /// The files that may be damaged.
        files: Vec<String>,
    },
    /// Published entries before the journal are missing or damaged.
    #[error(
        "{storage} publishes {published}, but {size} were published before the journal \
         begins, and some of these are missing or damaged: {problem}. Storage was emptied or \
         rolled back. Restore the newest storage; the log signs nothing until then",
        published = entries(*.published)
    )]
    BehindJournal {
        /// Location of the storage.
        storage: String,
        /// Number of entries of the published checkpoint.
        published: u64,
        /// Number of entries before the journal.
        size: u64,
        /// The problem with the entries.
        problem: ReadError,
    },
    /// Most tiles of a sample are missing.
    #[error(
        "{storage} lacks {missing} of {sampled} sampled data tiles, and their hash tiles \
         ({first}, …). Storage was emptied or rolled back, perhaps while the log ran. Restore the \
         newest storage; the log signs nothing until then"
    )]
    Emptied {
        /// Location of the storage.
        storage: String,
        /// Number of missing tiles.
        missing: usize,
        /// Number of tiles in the sample.
        sampled: usize,
        /// Path of the first missing tile.
        first: String,
    },
    /// Storage lacks more than the last round.
    #[error(
        "storage and journal end with {size}, and the checkpoint in the lock was signed \
         {} s after the last of these entries: more than one round is lost. Storage was rolled \
         back. Restore the newest storage; the log signs nothing until then",
        .apart.as_secs(), size = entries(*.size)
    )]
    RoundsLost {
        /// Number of entries that storage and journal lead to.
        size: u64,
        /// The time between the last signature in storage and the signature in the lock.
        apart: Duration,
    },
    /// A follower reads a checkpoint that is older than its tree, or of another tree.
    #[error(
        "{storage} publishes a checkpoint of {} with the root {}, signed at {}, and this \
         instance has seen {} with the root {}, signed at {}: storage was rolled back, or \
         another process publishes there. Restore the newest storage",
        entries(.published.size), .published.root, .published.timestamp_ms,
        entries(.seen.size), .seen.root, .seen.timestamp_ms
    )]
    BehindFollower {
        /// Location of the storage.
        storage: String,
        /// The published tree.
        published: Head,
        /// The tree of the follower.
        seen: Head,
    },
    /// This process has served more entries than storage publishes.
    #[error(
        "{storage} publishes {size}, and this process has served {served} from there: \
         storage was rolled back. Restore the newest storage",
        size = entries(*.size)
    )]
    BehindReaders {
        /// Location of the storage.
        storage: String,
        /// Number of published entries.
        size: u64,
        /// Number of entries that were served.
        served: u64,
    },
    /// The tiles do not prove the growth of the log.
    #[error("{0}")]
    NoProof(ReadError),
}

/// The reasons why stored tiles do not lead to a root.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TreeError {
    /// The tiles have another root.
    #[error(
        "the tiles of {size}: expected the root {expected}, found {found}",
        size = entries(*.size)
    )]
    Root {
        /// Number of entries.
        size: u64,
        /// Root of the tiles.
        found: Hash,
        /// Root of the tree.
        expected: Hash,
    },
    /// The tiles cannot be read.
    #[error("{0}")]
    Read(ReadError),
}

/// The difference between a published tree and the signed tree.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The signed tree had another root at this size.
    #[error("the root of the first {size} is {root}", size = entries(*.size))]
    Root {
        /// Number of published entries.
        size: u64,
        /// Root of the first `size` signed entries.
        root: Hash,
    },
    /// The signed tree never had this size.
    #[error("no signed round ended with that number of entries")]
    NoRound,
    /// The tiles belong to another tree.
    #[error("{0}")]
    Tiles(TreeError),
}

/// Returns the advice to restore single files, as a sentence before other advice.
fn repair(files: &[String]) -> String {
    match files {
        [] => String::new(),
        files => format!(
            "If only files are damaged, restore {} from a copy with `lucarne repair --from`. ",
            files.join(", ")
        ),
    }
}
