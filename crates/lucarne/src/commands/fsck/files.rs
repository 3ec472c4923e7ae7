//! Files of a log with a limit on failures, and with a count of bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ctread::{Source, SourceError};
use parking_lot::Mutex;

/// Files of a place that gets no requests for a while after repeated failures.
pub(super) struct Breaker {
    files: Arc<dyn Source>,
    /// Duration of the break.
    pause: Duration,
    /// Number of failures since the last response, and the last failure.
    failed: Mutex<(u32, Option<Failure>)>,
}

/// The time and the reason of a failure.
type Failure = (Instant, SourceError);

/// Number of consecutive failures that starts a break.
const FAILURES: u32 = 3;

impl Breaker {
    pub(super) fn new(files: Arc<dyn Source>) -> Self {
        Breaker {
            files,
            pause: Duration::from_secs(60),
            failed: Mutex::default(),
        }
    }
}

#[async_trait]
impl Source for Breaker {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        if let (FAILURES.., Some((at, error))) = &*self.failed.lock()
            && at.elapsed() < self.pause
        {
            return Err(error.clone());
        }
        let read = self.files.read(path).await;
        let mut failed = self.failed.lock();
        *failed = match &read {
            Ok(_) => (0, None),
            Err(error) => (failed.0 + 1, Some((Instant::now(), error.clone()))),
        };
        read
    }
}

/// Files, with a count of the bytes read.
pub(super) struct Counted {
    files: Arc<dyn Source>,
    bytes: AtomicU64,
}

impl Counted {
    pub(super) fn new(files: Arc<dyn Source>) -> Self {
        let bytes = AtomicU64::new(0);
        Counted { files, bytes }
    }

    /// Returns the number of stored bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Source for Counted {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
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
    impl Source for Dead {
        async fn read(&self, _: &str) -> Result<Option<Bytes>, SourceError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(SourceError::unavailable("connection refused"))
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
