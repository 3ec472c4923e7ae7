//! The places outside that may know this log's newest checkpoint, and what they answer.

use std::error::Error;
use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::CheckpointError;

/// Asks for the newest checkpoint of a log in places outside.
#[async_trait]
pub trait KnownCheckpoints: Debug + Send + Sync {
    /// Asks all places at once, in bounded time.
    async fn ask(&self) -> Vec<Answer>;
}

/// The answer of one place.
#[derive(Debug)]
pub struct Answer {
    /// Its URL or path.
    pub place: String,
    /// The bytes that should be a checkpoint; or the reason why there are none.
    pub note: Result<Bytes, Box<dyn Error + Send + Sync>>,
}

/// The reasons why an answer proves nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The place gave no bytes.
    #[error(transparent)]
    None(#[from] Box<dyn Error + Send + Sync>),
    /// It is no checkpoint, or another log's.
    #[error("what is there is no checkpoint of this log: {0}")]
    Checkpoint(#[from] CheckpointError),
}
