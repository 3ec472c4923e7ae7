//! Contradictions in which the rounds of the journal do not lead to the signed tree.

use std::io;

use lucarne_ct::TileLeafError;
use lucarne_tlog::Hash;

use crate::error::entries;
use crate::error::record_error::RecordError;

/// A contradiction that shows unusable rounds in the journal or in a bundle of Sunlight.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalInconsistency {
    /// Another version wrote the journal.
    #[error(
        "the journal in {storage} is not readable by this version: {problem}. Start the version \
         that wrote the journal, and stop it cleanly once: that empties the journal"
    )]
    Version {
        /// Location of the storage.
        storage: String,
        /// The problem with a record.
        problem: RecordError,
    },
    /// The entries of a round do not lead to its tree.
    #[error(
        "the journal in {storage} does not lead to the {size} that the log has signed: \
         {problem}",
        size = entries(*.size)
    )]
    Replay {
        /// Location of the storage.
        storage: String,
        /// Number of entries after the round.
        size: u64,
        /// The problem with the round.
        problem: ReplayError,
    },
    /// The staging bundle of a killed Sunlight does not lead to the signed tree.
    #[error(
        "{storage}/{path}, which Sunlight left when it was killed, does not lead from the \
         published tree of {published} to the signed tree of {signed}: {problem}. Start that \
         Sunlight again and stop it with SIGTERM: it publishes the signed entries",
        published = entries(*.published), signed = entries(*.signed)
    )]
    Bundle {
        /// Location of the storage.
        storage: String,
        /// Path of the bundle.
        path: String,
        /// Number of published entries.
        published: u64,
        /// Number of signed entries.
        signed: u64,
        /// The problem with the bundle.
        problem: BundleError,
    },
    /// A tile cannot be decompressed for the comparison with the bundle.
    #[error("cannot decompress {path} to compare it with the bundle of Sunlight: {problem}")]
    BundleTile {
        /// Path of the tile.
        path: String,
        /// The problem with its bytes.
        problem: io::Error,
    },
}

/// The reasons why the entries of a round do not lead to its tree.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// An entry cannot be parsed.
    #[error("{0}")]
    Entry(TileLeafError),
    /// The entries lead to another tree.
    #[error("its entries lead to a tree of {size} with the root {root}", size = entries(*.size))]
    Tree {
        /// Number of entries of the other tree.
        size: u64,
        /// Root of the other tree.
        root: Hash,
    },
}

/// The reasons why a bundle does not lead to the signed tree.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The bundle is not a gzipped tar.
    #[error("the bundle is not a gzipped tar: {0}")]
    Archive(io::Error),
    /// The tree is larger than any log.
    #[error("the tree is too large")]
    TooLarge,
    /// The bundle lacks a tile.
    #[error("the bundle has no {0}")]
    Missing(String),
    /// A tile cannot be decompressed.
    #[error("cannot decompress {0}: {1}")]
    Gzip(String, io::Error),
    /// An entry cannot be parsed.
    #[error("{0}: {1}")]
    Entry(String, TileLeafError),
    /// An entry has another index.
    #[error("{path}: expected entry {expected}, found entry {found}")]
    Index {
        /// Path of the tile.
        path: String,
        /// Index in the entry.
        found: u64,
        /// Index that the position in the tile requires.
        expected: u64,
    },
}
