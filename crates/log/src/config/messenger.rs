//! The channel from one instance of a log to the other instances.

use std::error::Error;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::LogId;

/// A channel to other instances of a log, authenticated in both directions.
#[async_trait]
pub trait Messenger: std::fmt::Debug + Send + Sync + 'static {
    /// Sends a message to the instance at `address`, and returns its response.
    ///
    /// # Errors
    /// If there is no response, or if the response is not from an instance of this log.
    async fn ask(&self, address: &str, log: LogId, message: Bytes)
    -> Result<Bytes, MessengerError>;
}

/// The leader did not respond, or its response is unusable.
#[derive(Debug, thiserror::Error)]
#[error("no valid response from the leading instance at {address}: {source}")]
pub struct MessengerError {
    /// The address of the leader, as `host:port`.
    pub address: String,
    /// The reason of the failure.
    pub source: Box<dyn Error + Send + Sync>,
}
