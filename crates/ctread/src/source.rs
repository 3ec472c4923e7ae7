//! Sources of a log's files: a directory, a bucket, a URL, or the caller's own.

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

/// Read access to the public files of a log.
#[async_trait]
pub trait Source: Send + Sync {
    /// Returns the bytes of a file exactly as stored or served, or `None` if the file does not
    /// exist.
    ///
    /// # Errors
    /// If it is unknown whether the file exists, or if the file cannot be read.
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError>;
}

/// The reason why a file of a log cannot be read. The file may exist. Clones share the reason.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// The source responded without the file, for example with a status that a store also uses for
    /// missing files.
    #[error(transparent)]
    Refused(Arc<dyn Error + Send + Sync>),
    /// The source failed, or did not respond.
    #[error(transparent)]
    Unavailable(Arc<dyn Error + Send + Sync>),
}

impl SourceError {
    /// Returns the error of a source that failed for this reason.
    pub fn unavailable(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        SourceError::Unavailable(reason.into().into())
    }

    /// Returns the reason, if it has this type.
    pub fn reason<E: Error + 'static>(&self) -> Option<&E> {
        match self {
            SourceError::Refused(reason) | SourceError::Unavailable(reason) => {
                reason.downcast_ref()
            }
        }
    }
}
