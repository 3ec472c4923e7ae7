//! The reasons why a file is not restored.

use std::io;
use std::sync::Arc;

use lucarne_storage::AssetError;

use crate::error::{Fatal, ReadError};

/// The reason why a file was not restored.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Another attempt may succeed.
    #[error(transparent)]
    Later(Later),
    /// The log's own data do not lead to the right bytes, or the file was restored before.
    #[error(transparent)]
    NoSource(NoSource),
}

/// The reason why a file is not restored now.
#[derive(Debug, thiserror::Error)]
pub(super) enum Later {
    #[error("{0}")]
    Storage(Arc<AssetError>),
    #[error("no checkpoint is published")]
    Unpublished,
    #[error("storage does not have the newest checkpoint")]
    Stale,
    #[error("{0}")]
    Checkpoint(Fatal),
}

/// The reason why a file cannot be restored.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoSource {
    #[error("this process has restored the file before, or has restored too many files")]
    Again,
    #[error("the tiles or entries beneath the file are missing or damaged as well")]
    Beneath,
    #[error("the journal does not have the certificate")]
    Journal,
    #[error("neither other tiles nor the journal have all entries of the file")]
    Entries,
    #[error("{tile} is beyond the tree")]
    Beyond { tile: String },
    #[error("{0}")]
    Read(ReadError),
    #[error("{0}")]
    Coding(io::Error),
}

impl From<Later> for Failure {
    fn from(later: Later) -> Self {
        Failure::Later(later)
    }
}

impl From<NoSource> for Failure {
    fn from(reason: NoSource) -> Self {
        Failure::NoSource(reason)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unavailable(problem) => Later::Storage(problem).into(),
            error => NoSource::Read(error).into(),
        }
    }
}

impl From<AssetError> for Failure {
    fn from(error: AssetError) -> Self {
        Later::Storage(Arc::new(error)).into()
    }
}
