//! Files below a monitoring prefix.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_net::{Client, ClientError};
use lucarne_storage::max_file_bytes;
use tokio::time::sleep;

use crate::{Source, SourceError};

/// Maximum size of a file in bytes: a tile of 256 entries of 128 kB each.
const MAX_FILE: u64 = 32 << 20;
/// Maximum number of attempts.
const ATTEMPTS: u32 = 4;
/// Shortest pause before the second attempt. The pause doubles for each further attempt.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum sum of the pauses of a read. A read fails if the server requests a longer pause.
const PAUSES: Duration = Duration::from_secs(180);

/// Monitoring prefix of a log. A failed request is repeated.
#[derive(Clone, Debug)]
pub struct Prefix {
    url: String,
    client: Client,
}

impl Prefix {
    /// Creates the source of the files below `url`.
    pub fn new(url: &str, client: Client) -> Self {
        let url = format!("{}/", url.trim_end_matches('/'));
        Prefix { url, client }
    }

    /// Returns the URL, with a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }
}

#[async_trait]
impl Source for Prefix {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        let url = format!("{}{path}", self.url);
        let max = max_file_bytes(path).min(MAX_FILE) as usize;
        let mut left = PAUSES;
        for attempt in 1.. {
            match self.client.get(&url, max).await {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(ClientError::Status(status, _)) if matches!(status.as_u16(), 404 | 410) => {
                    break;
                }
                Err(error) => match left.checked_sub(pause(&error, attempt)) {
                    Some(rest) if attempt < ATTEMPTS => {
                        sleep(left - rest).await;
                        left = rest;
                    }
                    // The server must not get the next request earlier than it requested.
                    _ => return Err(SourceError::unavailable(error)),
                },
            }
        }
        Ok(None)
    }
}

/// Returns the pause after the failure of an attempt: at least the pause that the server requests.
fn pause(error: &ClientError, attempt: u32) -> Duration {
    let own = PAUSE * (1 << (attempt - 1));
    match error {
        ClientError::Status(_, Some(requested)) => own.max(*requested),
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_as_long_as_the_server_requests_and_grows_by_itself() {
        let seconds = Duration::from_secs;
        let status = |wait| ClientError::Status("503".parse().unwrap(), wait);
        assert_eq!(pause(&status(Some(seconds(0))), 3), 4 * PAUSE);
        assert_eq!(pause(&status(Some(seconds(7))), 1), seconds(7));
        assert_eq!(pause(&status(None), 1), PAUSE);
        assert_eq!(pause(&ClientError::Timeout(seconds(1)), 3), 4 * PAUSE);
    }
}
