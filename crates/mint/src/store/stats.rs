//! Statistics of stores.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Statistics of a store since its creation. Counters only grow; `in_flight`, `entries` and `bytes`
/// are current values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Calls served from memory.
    pub hits: u64,
    /// Calls served from disk.
    pub disk_hits: u64,
    /// Calls without a stored certificate.
    pub misses: u64,
    /// Calls that waited for the certificate of another caller.
    pub coalesced: u64,
    /// Created certificates.
    pub generated: u64,
    /// Certificates created in the background, to replace another certificate before it expired.
    pub refreshed: u64,
    /// Certificates that could not be created.
    pub errors: u64,
    /// Files that could not be read or written, or whose content was invalid. Their certificates
    /// are recreated and used nevertheless.
    pub disk_errors: u64,
    /// Certificates dropped for lack of room.
    pub evicted: u64,
    /// Certificates dropped because they expired.
    pub expired: u64,
    /// Calls refused because too many were waiting.
    pub overloaded: u64,
    /// Keys that are being fetched now.
    pub in_flight: u64,
    /// Certificates in memory now.
    pub entries: u64,
    /// Estimated memory of these certificates in bytes.
    pub bytes: u64,
    /// Times of creating certificates.
    pub generation: GenerationTime,
}

impl StoreStats {
    /// Combines the statistics of a store in memory with the statistics of the store below.
    pub(super) fn above(self, below: StoreStats) -> Self {
        StoreStats {
            hits: self.hits + below.hits,
            coalesced: self.coalesced + below.coalesced,
            evicted: self.evicted + below.evicted,
            expired: self.expired + below.expired,
            overloaded: self.overloaded + below.overloaded,
            refreshed: self.refreshed + below.refreshed,
            in_flight: self.in_flight,
            entries: self.entries,
            bytes: self.bytes,
            ..below
        }
    }
}

/// Histogram of the times of creating certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationTime {
    /// Number of created certificates.
    pub count: u64,
    /// Sum of the times.
    pub total: Duration,
    /// Longest time.
    pub longest: Duration,
    /// Number of creation times up to the bound with the same index in [`BOUNDS`](Self::BOUNDS),
    /// and above the previous bound. The last bucket counts the times beyond all bounds.
    pub buckets: [u64; Self::BOUNDS.len() + 1],
}

impl GenerationTime {
    /// Upper bounds of the buckets, in seconds.
    pub const BOUNDS: [f64; 11] = [
        0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
    ];

    /// Returns the mean; zero without certificates.
    pub fn mean(&self) -> Duration {
        self.total
            .checked_div(u32::try_from(self.count).unwrap_or(u32::MAX))
            .unwrap_or_default()
    }
}

/// Counters behind [`StoreStats`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) hits: Counter,
    pub(super) disk_hits: Counter,
    pub(super) misses: Counter,
    pub(super) coalesced: Counter,
    pub(super) generated: Counter,
    pub(super) refreshed: Counter,
    pub(super) errors: Counter,
    pub(super) disk_errors: Counter,
    pub(super) evicted: Counter,
    pub(super) expired: Counter,
    pub(super) overloaded: Counter,
    generation_total: AtomicU64,
    generation_longest: AtomicU64,
    generation_buckets: [Counter; GenerationTime::BOUNDS.len() + 1],
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Counters {
    /// Counts a certificate that was created in this time.
    pub(super) fn made(&self, took: Duration) {
        self.generated.add_one();
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.generation_total.fetch_add(nanoseconds, Relaxed);
        self.generation_longest.fetch_max(nanoseconds, Relaxed);
        let seconds = took.as_secs_f64();
        let bucket = GenerationTime::BOUNDS.partition_point(|&bound| bound < seconds);
        self.generation_buckets[bucket].add_one();
    }

    pub(super) fn snapshot(&self) -> StoreStats {
        let buckets = std::array::from_fn(|i| self.generation_buckets[i].get());
        StoreStats {
            hits: self.hits.get(),
            disk_hits: self.disk_hits.get(),
            misses: self.misses.get(),
            coalesced: self.coalesced.get(),
            generated: self.generated.get(),
            refreshed: self.refreshed.get(),
            errors: self.errors.get(),
            disk_errors: self.disk_errors.get(),
            evicted: self.evicted.get(),
            expired: self.expired.get(),
            overloaded: self.overloaded.get(),
            generation: GenerationTime {
                count: buckets.iter().sum(),
                total: Duration::from_nanos(self.generation_total.load(Relaxed)),
                longest: Duration::from_nanos(self.generation_longest.load(Relaxed)),
                buckets,
            },
            ..StoreStats::default()
        }
    }
}
