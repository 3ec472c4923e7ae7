//! Statistics of hosts, for the live view and the admin page.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lru::LruCache;
use lucarne_mint::now_ms;
use lucarne_mint::store::Host;
use parking_lot::Mutex;
use serde::Serialize;

/// Counters of one host, shared by all connections to it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) intercepted: AtomicBool,
    /// Longest time that the creation of a certificate took, in microseconds.
    minted_us: AtomicU64,
    last_ms: AtomicU64,
}

impl Seen {
    /// Records the time that the creation of a certificate took.
    pub(crate) fn minted(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.minted_us.fetch_max(us, Relaxed);
    }

    /// Counts a request.
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    /// Counts a failed request.
    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Relaxed);
    }
}

/// Statistics of one host at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostRow {
    /// Host name or address.
    pub host: String,
    /// `true` if the proxy has intercepted TLS of this host; `false` for tunnels and plain HTTP.
    pub intercepted: bool,
    /// Connections of clients for the host. For plain HTTP: requests.
    pub connections: u64,
    /// Requests to the host that the proxy saw.
    pub requests: u64,
    /// Failed requests.
    pub failures: u64,
    /// Microseconds that creating its certificate took; 0 if none was created.
    pub minted_us: u64,
    /// Time of the last connection, in Unix milliseconds.
    pub last_ms: u64,
}

/// Statistics of the most recently requested hosts.
pub(crate) struct Hosts(Mutex<LruCache<Host, Arc<Seen>>>);

impl Hosts {
    /// Keeps statistics of at most `max` hosts and forgets the least recently used.
    pub(crate) fn new(max: usize) -> Self {
        let max = NonZeroUsize::new(max).unwrap_or(NonZeroUsize::MIN);
        Hosts(Mutex::new(LruCache::new(max)))
    }

    /// Counts a connection to `host` and returns the counters of that host.
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

    /// Counts a failed request to `host`.
    pub(crate) fn failed(&self, host: &Host) {
        if let Some(seen) = self.0.lock().peek(host) {
            seen.failed();
        }
    }

    /// Returns all hosts, the most recently requested first.
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
