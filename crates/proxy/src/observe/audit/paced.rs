//! Requests to one log, with a pause between them.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ctread::{Source, SourceError};
use lucarne_net::{Client, ClientError};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// Size limit of a response in bytes: the largest are proofs and checkpoints with cosignatures.
const MAX_BYTES: usize = 256 << 10;

/// The files or responses below the URL of a log.
#[derive(Debug)]
pub(super) struct Paced {
    url: String,
    client: Client,
    pace: Duration,
    next: Mutex<Instant>,
}

impl Paced {
    pub(super) fn new(url: &str, client: Client, pace: Duration) -> Self {
        Paced {
            url: url.trim_end_matches('/').to_owned(),
            client,
            pace,
            next: Mutex::new(Instant::now()),
        }
    }

    /// Requests a file, `pace` after the request before it.
    pub(super) async fn get(&self, path: &str) -> Result<Bytes, ClientError> {
        {
            let mut next = self.next.lock().await;
            sleep_until(*next).await;
            *next = Instant::now() + self.pace;
        }
        self.client
            .get(&format!("{}/{path}", self.url), MAX_BYTES)
            .await
    }
}

#[async_trait]
impl Source for Paced {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        match self.get(path).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(SourceError::unavailable(error)),
        }
    }
}

fn is_absence(error: &ClientError) -> bool {
    matches!(error, ClientError::Status(status, _) if matches!(status.as_u16(), 404 | 410))
}
