//! External sources that may know this log's newest checkpoint, and their responses.

use std::error::Error;
use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::CheckpointError;

/// Queries external sources for the newest checkpoint of a log.
#[async_trait]
pub trait KnownCheckpoints: Debug + Send + Sync {
    /// Queries all sources concurrently, in bounded time.
    async fn ask(&self) -> Vec<SourceResponse>;
}

/// The response of one source.
#[derive(Debug)]
pub struct SourceResponse {
    /// URL or path of the source.
    pub place: String,
    /// The bytes of the checkpoint, not yet verified, or the reason why the source returned no
    /// checkpoint.
    pub note: Result<Bytes, Box<dyn Error + Send + Sync>>,
}

/// The reasons why a response is not a checkpoint of the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceResponseError {
    /// The source returned no checkpoint.
    #[error(transparent)]
    None(#[from] Box<dyn Error + Send + Sync>),
    /// The response is not a checkpoint, or belongs to another log.
    #[error("not a checkpoint of this log: {0}")]
    Checkpoint(#[from] CheckpointError),
}
