//! The reasons why a read of a log fails.

use std::io;
use std::sync::Arc;

use crate::error::entries;
use lucarne_ct::CheckpointError;
use lucarne_storage::AssetError;
use lucarne_tlog::{LoadError, MakeProofError, ProofError};
use tokio::task::JoinError;

/// The reasons why a read fails. A missing file is not an error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The storage, or the processing of its files, failed.
    #[error("{0}")]
    Storage(ReadFailure),
    /// Storage does not respond now: the same read may succeed later.
    #[error("{0}")]
    Unavailable(Arc<AssetError>),
    /// The stored bytes differ from the bytes of the log.
    #[error("{path}: {problem}")]
    Damaged {
        /// Path of the asset.
        path: String,
        /// The problem with the asset: a text, because the list of damaged files keeps it.
        problem: String,
    },
}

/// The failure of a read. Concurrent readers share the failure, so underlying errors are in an
/// `Arc`.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadFailure {
    /// The storage failed.
    #[error("{0}")]
    Assets(Arc<AssetError>),
    /// The thread that processes a file panicked.
    #[error("{0}")]
    Task(Arc<JoinError>),
    /// A file could not be compressed, decompressed or converted.
    #[error("{0}")]
    Coding(Arc<io::Error>),
    /// The right edge of a tree could not be loaded.
    #[error("{0}")]
    Edge(Arc<LoadError<&'static str>>),
    /// A proof could not be created.
    #[error("{0}")]
    Proof(Arc<MakeProofError<&'static str>>),
    /// A proof that the log itself generated does not verify.
    #[error("a proof from verified tiles does not verify: {0}. Please report this error")]
    Defect(ProofError),
    /// The published checkpoint is not a tree head.
    #[error("{0}")]
    TreeHead(CheckpointError),
    /// The log has no published checkpoint.
    #[error("no checkpoint is published")]
    Unpublished,
    /// A data tile ends before an entry that it must have.
    #[error("a data tile ends before one of its entries")]
    NoEntry,
    /// The tree has no data tile with an entry.
    #[error("the tree of {size} has no data tile with entry {start}", size = entries(*.size))]
    NoDataTile {
        /// Size of the tree.
        size: u64,
        /// Index of the entry.
        start: u64,
    },
    /// The tree has no hash tile with a hash.
    #[error("the tree has no hash tile with position {position} of level {level}")]
    NoHashTile {
        /// Level of the tile.
        level: u8,
        /// Position of the hash in its level.
        position: u64,
    },
    /// A tile is not in the tree.
    #[error("{tile} is beyond the {size} of the tree", size = entries(*.size))]
    Beyond {
        /// Path of the tile.
        tile: String,
        /// Size of the tree.
        size: u64,
    },
}

impl From<ReadFailure> for ReadError {
    fn from(failure: ReadFailure) -> Self {
        ReadError::Storage(failure)
    }
}

impl From<JoinError> for ReadError {
    fn from(error: JoinError) -> Self {
        ReadError::Storage(ReadFailure::Task(Arc::new(error)))
    }
}

impl ReadError {
    /// Returns the error of a file that could not be compressed, decompressed or converted.
    pub(crate) fn coding(error: io::Error) -> Self {
        ReadError::Storage(ReadFailure::Coding(Arc::new(error)))
    }

    /// Returns the error of a right edge that could not be loaded.
    pub(crate) fn edge(error: LoadError<&'static str>) -> Self {
        ReadError::Storage(ReadFailure::Edge(Arc::new(error)))
    }
}

impl From<AssetError> for ReadError {
    fn from(error: AssetError) -> Self {
        use AssetError::{Io, Silent, Unavailable};
        match error {
            Unavailable { .. } | Silent { .. } => ReadError::Unavailable(Arc::new(error)),
            // The file is too long or not a regular file, so the log did not write it.
            Io { path, source, .. } if source.kind() == io::ErrorKind::InvalidData => {
                ReadError::Damaged {
                    path,
                    problem: source.to_string(),
                }
            }
            error => ReadError::Storage(ReadFailure::Assets(Arc::new(error))),
        }
    }
}
