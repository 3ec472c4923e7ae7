//! The hosts and what is known of them: for the live view and the admin page.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lru::LruCache;
use lucarne_mint::now_ms;
use lucarne_mint::store::Host;
use parking_lot::Mutex;
use serde::Serialize;

/// Counters of one host. Written by every connection to it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) intercepted: AtomicBool,
    /// The time that its certificate was waited for when it was not there yet.
    minted_us: AtomicU64,
    last_ms: AtomicU64,
}

impl Seen {
    /// Its certificate was there after so much time.
    pub(crate) fn minted(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.minted_us.fetch_max(us, Relaxed);
    }

    /// A request was made.
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    /// A request came to nothing.
    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Relaxed);
    }
}

/// A host as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostRow {
    /// Its name.
    pub host: String,
    /// True if its TLS is intercepted; else it is tunnelled, or plain HTTP.
    pub intercepted: bool,
    /// Connections of clients for it (of plain HTTP: requests).
    pub connections: u64,
    /// Requests to it that were seen.
    pub requests: u64,
    /// Those that came to nothing.
    pub failures: u64,
    /// Microseconds that its certificate took when it was made; 0: it was not.
    pub minted_us: u64,
    /// The time when it was asked for last, in Unix milliseconds.
    pub last_ms: u64,
}

/// The hosts asked for most recently.
pub(crate) struct Hosts(Mutex<LruCache<Host, Arc<Seen>>>);

impl Hosts {
    /// Of at most so many; others are forgotten.
    pub(crate) fn new(most: usize) -> Self {
        let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Hosts(Mutex::new(LruCache::new(most)))
    }

    /// A connection for a host.
    pub(crate) fn connection(&self, host: &Host) -> Arc<Seen> {
        let seen = {
            let mut hosts = self.0.lock();
            match hosts.get(host) {
                Some(seen) => seen.clone(),
                None => hosts.get_or_insert(host.clone(), Arc::default).clone(),
            }
        };
        seen.connections.fetch_add(1, Relaxed);
        seen.last_ms.store(now_ms(), Relaxed);
        seen
    }

    /// A request to a host came to nothing.
    pub(crate) fn failed(&self, host: &Host) {
        if let Some(seen) = self.0.lock().peek(host) {
            seen.failed();
        }
    }

    /// All of them, the one asked for last first.
    pub(crate) fn rows(&self) -> Vec<HostRow> {
        let row = |(host, seen): (&Host, &Arc<Seen>)| HostRow {
            host: host.to_string(),
            intercepted: seen.intercepted.load(Relaxed),
            connections: seen.connections.load(Relaxed),
            requests: seen.requests.load(Relaxed),
            failures: seen.failures.load(Relaxed),
            minted_us: seen.minted_us.load(Relaxed),
            last_ms: seen.last_ms.load(Relaxed),
        };
        self.0.lock().iter().map(row).collect()
    }
}
