//! Access to the files of a log in a directory, in a bucket or at a URL.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_log::{FileError, Files};
use lucarne_net::{Client, ClientError};
use lucarne_storage::{Assets, max_file_bytes, read_file};
use parking_lot::Mutex;

/// Maximum size of a file at a URL in bytes: a tile of 256 entries of 128 kB each.
const MAX_FILE: usize = 32 << 20;
/// Maximum number of attempts for a URL.
const ATTEMPTS: u32 = 4;
/// Pause before the second attempt. The pause doubles for each further attempt.
const PAUSE: Duration = Duration::from_millis(500);

/// Directory whose files are read directly, also while other processes use them.
pub(super) struct Directory(pub(super) PathBuf);

#[async_trait]
impl Files for Directory {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, FileError> {
        let (directory, path) = (self.0.clone(), path.to_owned());
        let read = tokio::task::spawn_blocking(move || read_file(&directory, &path)).await;
        Ok(read??)
    }
}

/// Files in a bucket.
pub(super) struct Bucket(pub(super) Arc<dyn Assets>);

#[async_trait]
impl Files for Bucket {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, FileError> {
        Ok(self.0.get(path).await?)
    }
}

/// Monitoring prefix, with a trailing slash.
pub(super) struct Prefix {
    pub(super) url: String,
    pub(super) client: Client,
}

#[async_trait]
impl Files for Prefix {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, FileError> {
        let url = format!("{}{path}", self.url);
        let max = usize::try_from(max_file_bytes(path)).map_or(MAX_FILE, |max| max.min(MAX_FILE));
        let mut pause = PAUSE;
        for attempt in 1.. {
            match self.client.get(&url, max).await {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(ClientError::Status(status)) if matches!(status.as_u16(), 404 | 410) => break,
                Err(error) if attempt == ATTEMPTS => {
                    return Err(FileError::Place(Box::new(error)));
                }
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause *= 2;
        }
        Ok(None)
    }
}

/// Files of a place that gets no requests for a while after repeated failures.
pub(super) struct Breaker {
    files: Arc<dyn Files>,
    /// Duration of the break.
    pause: Duration,
    /// Number of failures since the last response, and the last failure.
    failed: Mutex<(u32, Option<Failure>)>,
}

/// The time and the reason of a failure.
type Failure = (Instant, Arc<FileError>);

/// Number of consecutive failures that starts a break.
const FAILURES: u32 = 3;

impl Breaker {
    pub(super) fn new(files: Arc<dyn Files>) -> Self {
        Breaker {
            files,
            pause: Duration::from_secs(60),
            failed: Mutex::default(),
        }
    }
}

#[async_trait]
impl Files for Breaker {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, FileError> {
        if let (FAILURES.., Some((at, error))) = &*self.failed.lock()
            && at.elapsed() < self.pause
        {
            return Err(FileError::Shared(error.clone()));
        }
        let read = self.files.read(path).await.map_err(Arc::new);
        let mut failed = self.failed.lock();
        *failed = match &read {
            Ok(_) => (0, None),
            Err(error) => (failed.0 + 1, Some((Instant::now(), error.clone()))),
        };
        read.map_err(FileError::Shared)
    }
}

/// Files, with a count of the bytes read.
pub(super) struct Counted {
    files: Arc<dyn Files>,
    bytes: AtomicU64,
}

impl Counted {
    pub(super) fn new(files: Arc<dyn Files>) -> Self {
        let bytes = AtomicU64::new(0);
        Counted { files, bytes }
    }

    /// Returns the number of stored bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Files for Counted {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, FileError> {
        let read = self.files.read(path).await?;
        let length = read.as_ref().map_or(0, Bytes::len) as u64;
        self.bytes.fetch_add(length, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mirror that fails every request, and counts the requests.
    struct Dead(AtomicU64);

    #[async_trait]
    impl Files for Dead {
        async fn read(&self, _: &str) -> Result<Option<Bytes>, FileError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(FileError::Place("connection refused".into()))
        }
    }

    #[tokio::test]
    async fn a_dead_place_is_left_alone() {
        let dead = Arc::new(Dead(AtomicU64::new(0)));
        let mut breaker = Breaker::new(dead.clone());
        for _ in 0..10 {
            let error = breaker.read("tile/0/000").await.unwrap_err();
            assert_eq!(error.to_string(), "connection refused");
        }
        assert_eq!(dead.0.load(Ordering::Relaxed), u64::from(FAILURES));
        breaker.pause = Duration::ZERO;
        breaker.read("tile/0/000").await.unwrap_err();
        assert_eq!(dead.0.load(Ordering::Relaxed), u64::from(FAILURES) + 1);
    }
}
