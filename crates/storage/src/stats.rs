//! Counters for metrics.

#[cfg(feature = "object-stores")]
mod requests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

/// Counters of a back end since it was opened. Counters only grow.
#[derive(Default)]
pub struct Stats {
    syncs: AtomicU64,
    journal_bytes: AtomicU64,
    published_bytes: AtomicU64,
    published_files: AtomicU64,
    removed_files: AtomicU64,
    requests: AtomicU64,
    hedges: AtomicU64,
    date: Mutex<Option<StoreDate>>,
    #[cfg(feature = "object-stores")]
    observer: Option<std::sync::Arc<dyn crate::Observer>>,
}

/// The clock of a store or of a lock, from one of its responses.
#[derive(Clone, Copy, Debug)]
pub struct StoreDate {
    /// The time of the clock in Unix milliseconds, in whole seconds.
    pub unix_ms: u64,
    /// The time when the response arrived.
    pub at: Instant,
}

impl fmt::Debug for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Stats({} requests, {} syncs)",
            self.requests(),
            self.syncs()
        )
    }
}

impl Stats {
    /// Returns the number of sync operations: `fdatasync`, `fsync` and `syncfs` calls.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Relaxed)
    }

    /// Returns the number of bytes appended to the journal, including headers.
    pub fn journal_bytes(&self) -> u64 {
        self.journal_bytes.load(Relaxed)
    }

    /// Returns the number of bytes of published files.
    pub fn published_bytes(&self) -> u64 {
        self.published_bytes.load(Relaxed)
    }

    /// Returns the number of public files written.
    pub fn published_files(&self) -> u64 {
        self.published_files.load(Relaxed)
    }

    /// Returns the number of superseded partial tiles removed.
    pub fn removed_files(&self) -> u64 {
        self.removed_files.load(Relaxed)
    }

    /// Returns the number of HTTP requests sent to an object store, including retries and hedged
    /// requests. A cloud provider charges for these requests.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Returns the number of requests that were sent a second time because the first response was
    /// slow.
    pub fn hedges(&self) -> u64 {
        self.hedges.load(Relaxed)
    }

    /// Returns the clock of the store at its last response; `None` if the store has no clock of its
    /// own.
    pub fn date(&self) -> Option<StoreDate> {
        *self.date.lock()
    }

    /// Records the clock of the store.
    pub fn set_date(&self, date: StoreDate) {
        *self.date.lock() = Some(date);
    }

    pub(crate) fn synced(&self) {
        self.syncs.fetch_add(1, Relaxed);
    }

    pub(crate) fn appended(&self, bytes: u64) {
        self.journal_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn published(&self, bytes: u64) {
        self.published_bytes.fetch_add(bytes, Relaxed);
        self.published_files.fetch_add(1, Relaxed);
    }

    pub(crate) fn removed(&self) {
        self.removed_files.fetch_add(1, Relaxed);
    }
}
