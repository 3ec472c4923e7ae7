//! The files of a log for its readers: [`ReadAssets`], and files that stay open for sending.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use bytes::Bytes;
use rustix::fs::fstat;
use rustix::process::{Resource, getrlimit};

use crate::{AssetError, Assets, DiskCache};

/// The files of a log for readers: from a cache on disk, if there is one, or from the store.
///
/// Only the read path has this type. All other code reads the [store](Self::store), because a cache
/// may have files that the store has lost.
#[derive(Clone)]
pub struct ReadAssets {
    store: Arc<dyn Assets>,
    cache: Option<Arc<DiskCache>>,
}

/// A file for a reader.
#[derive(Debug)]
pub struct ForReader {
    /// The bytes exactly as stored.
    pub bytes: Bytes,
    /// The open file that the bytes were read from; `None` unless sending from the file is cheaper.
    pub file: Option<OpenFile>,
    /// Whether the bytes come from a cache. The store itself may have lost the file.
    pub is_cached: bool,
}

impl From<Bytes> for ForReader {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            file: None,
            is_cached: false,
        }
    }
}

impl ReadAssets {
    /// Creates a reader of a store without a cache.
    pub fn uncached(store: Arc<dyn Assets>) -> Self {
        Self { store, cache: None }
    }

    /// Creates a reader of a store whose immutable files are cached on disk.
    pub fn cached(store: Arc<dyn Assets>, cache: Arc<DiskCache>) -> Self {
        Self {
            store,
            cache: Some(cache),
        }
    }

    /// Returns the store itself.
    pub fn store(&self) -> &Arc<dyn Assets> {
        &self.store
    }

    /// Returns a file for a reader. A published checkpoint must cover the file. Immutable files may
    /// come from the cache, and the caller must verify that the log wrote these bytes.
    ///
    /// # Errors
    /// The errors of [`Assets::get`].
    pub async fn get(&self, path: &str) -> Result<Option<ForReader>, AssetError> {
        if let Some(cache) = &self.cache
            && let Some(bytes) = cache.get(path).await
        {
            return Ok(Some(ForReader {
                is_cached: true,
                ..bytes.into()
            }));
        }
        let found = self.store.get_open(path).await?;
        Ok(found.map(|(bytes, file)| ForReader {
            file,
            ..bytes.into()
        }))
    }

    /// Allows the cache to keep these bytes. The caller got them from [`get`](Self::get) and has
    /// verified that the log wrote them.
    pub fn keep(&self, path: &str, bytes: &Bytes) {
        if let Some(cache) = &self.cache {
            cache.keep(path, bytes);
        }
    }

    /// Removes a file from the cache because its bytes differ from the bytes of the log.
    pub async fn forget(&self, path: &str) {
        if let Some(cache) = &self.cache {
            cache.forget(path).await;
        }
    }
}

/// A file that never changes, kept open for readers.
///
/// Size and timestamps are recorded before the bytes are read, so that later writes to the file are
/// detected. Silent corruption by the disk is not detected.
///
/// All open files together use at most a quarter of this process's file descriptors. The rest is
/// left for connections and for the rounds' own files.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    stamp: Stamp,
    /// Time of the last check, in milliseconds since the first file was opened.
    looked: AtomicU64,
}

/// Lifetime of a check: a file that is sent ten thousand times a second need not be checked each
/// time.
const FRESH_MS: u64 = 10;

static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);

fn now_ms() -> u64 {
    FIRST.elapsed().as_millis() as u64 + FRESH_MS
}

/// The properties of a file that change with its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the current properties of the file.
    #[allow(clippy::unnecessary_cast, reason = "not the same types everywhere")]
    pub(crate) fn of(file: &File) -> Option<Self> {
        let now = fstat(file).ok()?;
        Some(Stamp {
            size: now.st_size as i64,
            modified: (now.st_mtime as i64, now.st_mtime_nsec as i64),
            changed: (now.st_ctime as i64, now.st_ctime_nsec as i64),
        })
    }
}

static OPEN: AtomicUsize = AtomicUsize::new(0);

static MAX_OPEN: LazyLock<usize> = LazyLock::new(|| {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    usize::try_from(limit / 4).unwrap_or(usize::MAX)
});

impl OpenFile {
    /// Keeps the file in its current state; returns `None` if too many files are open.
    pub fn keep(file: File) -> Option<Self> {
        let stamp = Stamp::of(&file)?;
        Self::keep_as(file, stamp)
    }

    /// Keeps the file, whose `stamp` was taken before its bytes were read; returns `None` if too
    /// many files are open.
    pub(crate) fn keep_as(file: File, stamp: Stamp) -> Option<Self> {
        let counted = OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
            (open < *MAX_OPEN).then_some(open + 1)
        });
        counted.ok().map(|_| Self {
            file,
            stamp,
            looked: AtomicU64::new(0),
        })
    }

    /// Returns `true` if nothing has written to the file since its bytes were read. The result may
    /// be up to 10 ms old.
    pub fn is_unchanged(&self) -> bool {
        let (now, looked) = (now_ms(), self.looked.load(Ordering::Relaxed));
        if now < looked.saturating_add(FRESH_MS) {
            return true;
        }
        let is_unchanged = Stamp::of(&self.file) == Some(self.stamp);
        if is_unchanged {
            self.looked.store(now, Ordering::Relaxed);
        }
        is_unchanged
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use parking_lot::Mutex;

    use super::*;

    /// The tests count open files, so they must not run concurrently.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    #[test]
    fn most_descriptors_are_left_to_others() {
        let _one = ONE_AT_A_TIME.lock();
        let file = tempfile::tempfile().unwrap();
        let keep = || OpenFile::keep(file.try_clone().unwrap());
        OPEN.fetch_add(*MAX_OPEN, Ordering::Relaxed);
        assert!(keep().is_none());
        OPEN.fetch_sub(*MAX_OPEN, Ordering::Relaxed);
        let kept = keep().unwrap();
        assert_eq!(OPEN.load(Ordering::Relaxed), 1);
        drop(kept);
        assert_eq!(OPEN.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_file_that_is_written_to_is_told() {
        let _one = ONE_AT_A_TIME.lock();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"as it was read").unwrap();
        let kept = OpenFile::keep(file.try_clone().unwrap()).unwrap();
        assert!(kept.is_unchanged());
        // Timestamps of files have a coarse resolution.
        while kept.is_unchanged() {
            file.rewind().unwrap();
            file.write_all(b"AS").unwrap();
        }
    }
}
