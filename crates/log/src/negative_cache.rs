//! The negative cache: issuers that are not there, remembered for a moment, so that who asks for
//! them again and again does not ask a bucket each time.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use lucarne_ct::Fingerprint;
use moka::sync::Cache;

/// For so long another process's issuer may go unseen; this process's own is
/// seen at once.
const MOMENT: Duration = Duration::from_secs(5);

/// Most that are remembered, some 100 bytes each.
const MOST: u64 = 10_000;

/// The issuers that storage was asked for in vain.
pub(crate) struct NegativeCache {
    issuers: Cache<Fingerprint, ()>,
    /// The number of times that issuers were published.
    publications: AtomicU64,
}

/// The time when storage was asked.
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

    /// To be called before storage is.
    pub(crate) fn ask(&self) -> AskedAt {
        AskedAt(self.publications.load(SeqCst))
    }

    /// Storage has said that it is not there. If anything was published since
    /// it was asked, that may be this very one: either this sees the count, or
    /// [`published`](Self::published) removes what this has put.
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
        // Asked before it was there, told after.
        let asked = absent.ask();
        absent.published([issuer].into_iter());
        absent.note(issuer, asked);
        assert!(!absent.contains(&issuer));
    }
}
