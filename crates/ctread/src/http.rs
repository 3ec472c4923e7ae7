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
                Err(error) => match next(left, &error, attempt) {
                    Some(pause) => {
                        sleep(pause).await;
                        left -= pause;
                    }
                    None => return Err(last(left, error)),
                },
            }
        }
        Ok(None)
    }
}

/// Returns the pause before the next attempt: at least the pause that the server requests. Returns
/// `None` if there is no next attempt, because it would be one too many, or too early.
fn next(left: Duration, error: &ClientError, attempt: u32) -> Option<Duration> {
    let pause = requested(error).max(PAUSE * (1 << (attempt - 1)));
    (attempt < ATTEMPTS && pause <= left).then_some(pause)
}

/// Returns the pause that the server requests, or zero.
fn requested(error: &ClientError) -> Duration {
    match error {
        ClientError::Status(_, Some(requested)) => *requested,
        _ => Duration::ZERO,
    }
}

/// Returns the error of a read after its last attempt, with the requested pause if it is too long.
fn last(left: Duration, error: ClientError) -> SourceError {
    let pause = requested(&error);
    if pause <= left {
        return SourceError::unavailable(error);
    }
    let (pause, most) = (pause.as_secs(), PAUSES.as_secs());
    SourceError::unavailable(format!(
        "{error} and Retry-After {pause} s: the pauses of a read are at most {most} s in total"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_as_long_as_the_server_requests_and_grows_by_itself() {
        let timeout = ClientError::Timeout(PAUSE);
        for (error, attempt, pause) in [
            (status(Some(0)), 3, 4 * PAUSE),
            (status(Some(7)), 1, Duration::from_secs(7)),
            (status(None), 1, PAUSE),
            (timeout, 3, 4 * PAUSE),
        ] {
            assert_eq!(next(PAUSES, &error, attempt), Some(pause), "{error}");
        }
    }

    #[test]
    fn a_read_ends_after_four_attempts_or_before_a_pause_that_is_too_long() {
        assert_eq!(next(PAUSES, &status(Some(0)), ATTEMPTS), None);
        assert_eq!(next(PAUSES, &status(Some(180)), 1), Some(PAUSES));
        assert_eq!(next(PAUSES, &status(Some(181)), 1), None);
        let long = status(Some(100));
        let pause = next(PAUSES, &long, 1).unwrap();
        assert_eq!(next(PAUSES - pause, &long, 2), None);
        let plain = "the server responded with status 503 Service Unavailable";
        assert_eq!(last(PAUSES, status(Some(7))).to_string(), plain);
        let expected = format!(
            "{plain} and Retry-After 100 s: the pauses of a read are at most 180 s in total"
        );
        assert_eq!(last(PAUSES - pause, long).to_string(), expected);
    }

    fn status(seconds: Option<u64>) -> ClientError {
        ClientError::Status("503".parse().unwrap(), seconds.map(Duration::from_secs))
    }
}
