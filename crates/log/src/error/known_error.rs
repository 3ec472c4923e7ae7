//! The reasons why a log does not match a known checkpoint.

use lucarne_tlog::Hash;

use crate::error::entries;
use crate::error::read_error::ReadError;

/// The reasons why the log does not match a known checkpoint. Each text ends with a stable code.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KnownError {
    /// The known checkpoint has more entries than the log here.
    #[error(
        "{place} has a checkpoint of {known}, signed at {timestamp_ms} with this log's \
         key, but lock, journal and storage here have {here}: all of them were rolled \
         back, or belong to a copy of this log. Restore the newest lock and storage; never start \
         the log with older ones: it would sign a fork (known_checkpoint_newer)",
        known = entries(*.known), here = entries(*.here)
    )]
    Newer {
        /// The source of the checkpoint.
        place: String,
        /// The number of entries in the checkpoint.
        known: u64,
        /// The time of the signature in Unix milliseconds.
        timestamp_ms: u64,
        /// The number of entries that are signed here.
        here: u64,
    },
    /// The known checkpoint belongs to another history than the log here.
    #[error(
        "{place} has a checkpoint of {known} with the root {root}, signed at \
         {timestamp_ms} with this log's key, and {here}: this key has signed two histories, or \
         lock and storage here belong to a copy of this log. Find out which history is the right \
         one; the log signs nothing until then (known_checkpoint_fork)",
        known = entries(*.known)
    )]
    Fork {
        /// The source of the checkpoint.
        place: String,
        /// The number of entries in the checkpoint.
        known: u64,
        /// The root hash of the checkpoint.
        root: Hash,
        /// The time of the signature in Unix milliseconds.
        timestamp_ms: u64,
        /// The entries of the log here.
        here: HistoryHere,
    },
    /// Unreadable tiles prevent the comparison with the known checkpoint.
    #[error(
        "cannot verify that this log begins with the {known} of the checkpoint in {place}: \
         {problem} (known_checkpoint_untold)",
        known = entries(*.known)
    )]
    Untold {
        /// The source of the checkpoint.
        place: String,
        /// The number of entries in the checkpoint.
        known: u64,
        /// The problem with the tiles.
        problem: ReadError,
    },
}

/// The difference between the log here and the tree of a known checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryHere {
    /// The first entries here have another root.
    #[error("the root of the first {size} here is {root}", size = entries(*.size))]
    Root {
        /// Number of entries.
        size: u64,
        /// Root of these entries.
        root: Hash,
    },
    /// No round here ended with this number of entries.
    #[error("no round here ended with {size}", size = entries(*.size))]
    NoRound {
        /// Number of entries.
        size: u64,
    },
}

impl KnownError {
    /// Returns whether the error prevents the log's start. A damaged tile does not prevent the
    /// start, but clients that read the tile get the error.
    pub fn refuses(&self) -> bool {
        !matches!(self, KnownError::Untold { .. })
    }
}
