//! [`DiskCache`]: files of an object store that readers requested, cached on disk.
//!
//! Only immutable files are cached: full tiles and issuers, each under its path, with a checksum
//! that detects a file that a crash left incomplete. Only bytes that match the tree of the log are
//! cached. Otherwise, a single wrong response would outlive the repair of the store. The log itself
//! ([`Assets::get`](crate::Assets::get)) always reads the store, so that it notices an emptied
//! store although readers could still get some of the files.

mod disk;
mod lru;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use self::disk::Disk;
use crate::Observer;

/// A cache of immutable files in a directory, bounded in bytes.
///
/// The cache is empty, and leaves its directory alone, until its [start](Self::start).
pub struct DiskCache {
    disk: Arc<Disk>,
    observer: Arc<dyn Observer>,
    is_started: AtomicBool,
}

impl DiskCache {
    /// Creates a cache of at most `bytes` in `directory`. No other log may use the directory,
    /// because its files are served as this log's.
    pub fn new(directory: &Path, bytes: u64, observer: Arc<dyn Observer>) -> Self {
        Self {
            disk: Arc::new(Disk::new(directory, bytes)),
            observer,
            is_started: AtomicBool::new(false),
        }
    }

    /// Starts to cache files. Creates the directory if necessary. Files of an earlier process are
    /// registered in the background.
    ///
    /// Must be called within a tokio runtime. If the directory cannot be written, the cache logs a
    /// warning and stores nothing.
    pub fn start(&self) {
        if self.is_started.swap(true, Ordering::Relaxed) {
            return;
        }
        let (scanned, reported) = (self.disk.clone(), self.observer.clone());
        tokio::task::spawn_blocking(move || {
            scanned.scan();
            reported.cache_holds(scanned.bytes());
        });
    }

    /// Returns the cached bytes of this path; `None` if the cache does not have the file.
    pub(crate) async fn get(&self, path: &str) -> Option<Bytes> {
        if !self.caches(path) {
            return None;
        }
        let found = self.disk.read(path).await;
        self.observer.cache(found.is_some());
        found
    }

    /// Caches these bytes in the background.
    pub(crate) fn keep(&self, path: &str, bytes: &Bytes) {
        if self.caches(path) {
            let (path, bytes) = (path.to_owned(), bytes.clone());
            let observer = self.observer.clone();
            self.disk
                .clone()
                .keep(path, bytes, move |held| observer.cache_holds(held));
        }
    }

    /// Removes this path from the cache.
    pub(crate) async fn forget(&self, path: &str) {
        if self.is_started.load(Ordering::Relaxed) {
            self.disk.clone().discard(path.to_owned()).await;
            self.observer.cache_holds(self.disk.bytes());
        }
    }

    fn caches(&self, path: &str) -> bool {
        self.is_started.load(Ordering::Relaxed) && is_immutable(path)
    }
}

/// Returns `true` if the file at this path never changes and is likely to be requested again.
fn is_immutable(path: &str) -> bool {
    let tile = path.starts_with("tile/") && !path.contains(".p/");
    tile || path.starts_with("issuer/")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use lucarne_testkit::eventually;

    use super::*;

    const TILE: &str = "tile/0/000";

    /// The earlier process of a hand-over uses the directory until the next process starts its
    /// cache.
    #[tokio::test]
    async fn the_directory_is_left_alone_before_the_start() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("cache");
        let [earlier, next] = [(); 2].map(|()| DiskCache::new(&directory, 1 << 20, Arc::new(())));
        let tile = Bytes::from_static(b"a tile");
        next.keep(TILE, &tile);
        assert_eq!(next.get(TILE).await, None);
        assert!(!directory.exists());

        earlier.start();
        earlier.keep(TILE, &tile);
        eventually("the tile is cached", async || {
            earlier.get(TILE).await.is_some()
        })
        .await;
        next.keep("tile/0/001", &tile);
        next.forget(TILE).await;
        assert_eq!(next.get(TILE).await, None);
        assert_eq!(earlier.get(TILE).await, Some(tile.clone()));
        let folders = fs::read_dir(&directory).unwrap();
        assert_eq!(folders.count(), 1, "only the file of the earlier process");

        next.start();
        eventually("the file of the earlier process is found", async || {
            next.get(TILE).await.as_ref() == Some(&tile)
        })
        .await;
        assert_eq!(earlier.get(TILE).await, Some(tile.clone()));
    }
}
