//! Files that are read at a bounded rate.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ctread::{Source, SourceError};
use lucarne_storage::Assets;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, sleep_until};

/// Cost of a request in bytes, in addition to the bytes of the file. A disk seeks and a bucket
/// charges for each request, so many small files are expensive, too.
const REQUEST: u64 = 4096;

/// The files of a log, read from storage without caches and at a bounded rate.
pub(super) struct Paced {
    assets: Arc<dyn Assets>,
    bytes_per_second: NonZeroU64,
    /// The time before which the next read must not start.
    paid: Mutex<Instant>,
    read: Counter,
}

impl Paced {
    pub(super) fn new(
        assets: Arc<dyn Assets>,
        bytes_per_second: NonZeroU64,
        read: Counter,
    ) -> Self {
        Paced {
            assets,
            bytes_per_second,
            paid: Mutex::new(Instant::now()),
            read,
        }
    }

    /// Returns the time that a read of `bytes` takes at the configured rate.
    fn time(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64((bytes + REQUEST) as f64 / self.bytes_per_second.get() as f64)
    }
}

#[async_trait]
impl Source for Paced {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        let paid = *self.paid.lock();
        sleep_until(paid).await;
        let found = self.assets.get(path).await;
        let bytes = match &found {
            Ok(Some(bytes)) => bytes.len() as u64,
            _ => 0,
        };
        self.read.inc_by(bytes);
        let mut paid = self.paid.lock();
        // Idle time does not allow a higher rate afterwards.
        *paid = (*paid).max(Instant::now()) + self.time(bytes);
        found.map_err(SourceError::unavailable)
    }
}

#[cfg(test)]
mod tests {
    use lucarne_storage::{Asset, AssetKind, MemoryAssets};

    use super::*;

    #[tokio::test]
    async fn nothing_is_read_faster_than_the_rate() {
        let assets = MemoryAssets::default();
        let bytes = vec![0; 100_000 - REQUEST as usize];
        let file = Asset::new("tile/000", bytes, AssetKind::HashTile);
        assets.publish(vec![file]).await.unwrap();
        let rate = NonZeroU64::new(1_000_000).unwrap();
        let read = Counter::default();
        let files = Paced::new(Arc::new(assets), rate, read.clone());
        let began = Instant::now();
        for _ in 0..6 {
            files.read("tile/000").await.unwrap().unwrap();
        }
        // The first read does not wait; each other read waits for the read before. This is a test
        // of time with a lower bound: a busy machine only takes longer.
        assert!(began.elapsed() >= Duration::from_millis(500));
        assert_eq!(read.get(), 6 * (100_000 - REQUEST));
        // Idle time, however long, does not allow a higher rate afterwards.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let late = Instant::now();
        for _ in 0..3 {
            files.read("tile/000").await.unwrap().unwrap();
        }
        assert!(late.elapsed() >= Duration::from_millis(200));
    }
}
