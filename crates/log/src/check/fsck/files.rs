//! Sources of a log's files: a directory, a bucket, a URL.

use async_trait::async_trait;
use bytes::Bytes;

use super::file_error::FileError;

/// Read access to the public files of a log.
#[async_trait]
pub trait Files: Send + Sync + 'static {
    /// Returns the bytes of a file exactly as stored or served, or `None` if the file does not
    /// exist.
    ///
    /// # Errors
    /// If it is unknown whether the file exists, or if the file cannot be read.
    async fn read(&self, path: &str) -> Result<Option<Bytes>, FileError>;
}
