//! Counters of a back end, and observation of requests to an object store, for metrics.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
#[cfg(feature = "object-stores")]
use {
    http::{HeaderMap, header::DATE},
    std::sync::Arc,
};

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
    observer: Option<Arc<dyn Observer>>,
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

/// Counting and reporting of requests to object stores.
#[cfg(feature = "object-stores")]
impl Stats {
    /// Creates counters that also report requests to `observer`.
    pub(crate) fn observed(observer: Arc<dyn Observer>) -> Self {
        Self {
            observer: Some(observer),
            ..Self::default()
        }
    }

    pub(crate) fn report(&self, what: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = &self.observer {
            what(&**observer);
        }
    }

    pub(crate) fn requested(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn hedged(&self) {
        self.hedges.fetch_add(1, Relaxed);
        self.report(|observer| observer.hedge());
    }

    /// Records the clock of a store from the headers of a response.
    pub(crate) fn responded(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        if let Some(unix_ms) = date.and_then(imf_date) {
            let at = Instant::now();
            self.set_date(StoreDate { unix_ms, at });
        }
    }
}

/// Parses a date of HTTP (RFC 9110, section 5.6.7), such as `Sun, 06 Nov 1994 08:49:37 GMT`, to
/// Unix milliseconds.
#[cfg(feature = "object-stores")]
fn imf_date(text: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (_, date) = text.strip_suffix(" GMT")?.split_once(", ")?;
    let mut parts = date.split(' ');
    let (day, month) = (parts.next()?, parts.next()?);
    let (year, time) = (parts.next()?, parts.next()?);
    let month = MONTHS
        .find(month)
        .filter(|at| month.len() == 3 && at % 3 == 0)?
        / 3
        + 1;
    lucarne_x509::time::rfc3339(&format!("{year}-{month:02}-{day}T{time}Z"))
}

/// Receives every request to an object store, and every hit or miss of the cache. `()` ignores all
/// events.
pub trait Observer: Send + Sync + 'static {
    /// Called after a request, with its outcome and duration.
    fn request(&self, _operation: Operation, _outcome: Outcome, _took: Duration) {}

    /// Called if a request is sent a second time because the first is slow.
    fn hedge(&self) {}

    /// Called if a failed put or read is retried. Retries of listings and deletions only count as
    /// requests.
    fn retry(&self) {}

    /// Called if the disk cache has the requested file (`true`) or not (`false`).
    fn cache(&self, _hit: bool) {}

    /// Called with the current size of the disk cache in bytes.
    fn cache_holds(&self, _bytes: u64) {}
}

impl Observer for () {}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// An object was read.
    Get,
    /// An object was written.
    Put,
    /// Objects were listed.
    List,
    /// Objects were deleted, one or a batch.
    Delete,
    /// Another request, such as one for a token.
    Other,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 5] = [Self::Get, Self::Put, Self::List, Self::Delete, Self::Other];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request succeeded.
    Done,
    /// The object or the bucket does not exist.
    Absent,
    /// The condition of the request was not met.
    Conflict,
    /// The store refuses or does not support the request.
    Refused,
    /// The store is unavailable: 429 or 5xx.
    Unavailable,
    /// There was no response, or an incomplete one.
    Lost,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 6] = [
        Self::Done,
        Self::Absent,
        Self::Conflict,
        Self::Refused,
        Self::Unavailable,
        Self::Lost,
    ];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Absent => "absent",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Lost => "lost",
        }
    }
}

#[cfg(all(test, feature = "object-stores"))]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http() {
        assert_eq!(
            imf_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777_000)
        );
        for wrong in [
            "",
            "06 Nov 1994",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 GMT",
        ] {
            assert_eq!(imf_date(wrong), None, "{wrong}");
        }
    }
}
