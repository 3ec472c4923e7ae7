//! The negative cache: remembers missing issuers for a short time. Repeated requests for a missing
//! issuer therefore do not cost one request to a bucket each.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use lucarne_ct::Fingerprint;
use moka::sync::Cache;

/// Maximum delay until an issuer of another process is visible. Issuers of this process are visible
/// at once.
const MOMENT: Duration = Duration::from_secs(5);

/// Maximum number of issuers in the cache. Each issuer takes about 100 bytes.
const MOST: u64 = 10_000;

/// The issuers that storage does not have.
pub(crate) struct NegativeCache {
    issuers: Cache<Fingerprint, ()>,
    /// The number of publications of issuers.
    publications: AtomicU64,
}

/// The number of publications at the time of a request to storage.
pub(crate) struct AskedAt(u64);

impl Default for NegativeCache {
    fn default() -> Self {
        let issuers = Cache::builder().max_capacity(MOST).time_to_live(MOMENT);
        Self {
            issuers: issuers.build(),
            publications: AtomicU64::new(0),
        }
    }
}

impl NegativeCache {
    pub(crate) fn contains(&self, issuer: &Fingerprint) -> bool {
        self.issuers.contains_key(issuer)
    }

    /// Returns the current number of publications. Must be called before the request to storage.
    pub(crate) fn ask(&self) -> AskedAt {
        AskedAt(self.publications.load(SeqCst))
    }

    /// Records that storage does not have this issuer. The issuer may have been published since the
    /// request. Either this function sees the new count, or [`published`](Self::published) removes
    /// the new record.
    pub(crate) fn note(&self, issuer: Fingerprint, asked: AskedAt) {
        self.issuers.insert(issuer, ());
        if self.publications.load(SeqCst) != asked.0 {
            self.issuers.invalidate(&issuer);
        }
    }

    pub(crate) fn published(&self, issuers: impl ExactSizeIterator<Item = Fingerprint>) {
        if issuers.len() == 0 {
            return;
        }
        self.publications.fetch_add(1, SeqCst);
        issuers.for_each(|issuer| self.issuers.invalidate(&issuer));
    }

    pub(crate) fn forget(&self) {
        self.publications.fetch_add(1, SeqCst);
        self.issuers.invalidate_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_meanwhile_is_not_hidden() {
        let (absent, issuer) = (NegativeCache::default(), Fingerprint::of(b"an issuer"));
        let asked = absent.ask();
        absent.note(issuer, asked);
        assert!(absent.contains(&issuer));
        absent.published([issuer].into_iter());
        assert!(!absent.contains(&issuer));
        // The request precedes the publication, and the response follows the publication.
        let asked = absent.ask();
        absent.published([issuer].into_iter());
        absent.note(issuer, asked);
        assert!(!absent.contains(&issuer));
    }
}
