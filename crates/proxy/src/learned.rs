//! Hosts whose TLS a client does not allow to be intercepted, for example because an application
//! pins their certificates. With the action [`Action::Learn`](crate::Action), the proxy forwards
//! the connections of this client to the host unchanged.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lru::LruCache;
use lucarne_mint::now_ms;
use lucarne_mint::store::Host;
use parking_lot::Mutex;
use serde::Serialize;

use crate::checks::network;
use crate::core::Core;
use crate::time::time;

/// Limit of pairs of client and host; the least recently used are forgotten.
const PAIRS: usize = 4096;

/// Time within which two handshakes must fail.
const WINDOW: Duration = Duration::from_secs(60);

/// Time after a handshake in which a client that rejects the certificate closes the connection.
/// Browsers keep connections in reserve for longer.
const PROMPT: Duration = Duration::from_secs(3);

/// A host that is tunnelled for one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LearnedRow {
    /// Host name or address.
    pub host: String,
    /// Address of the client (IPv6: the /64).
    pub client: IpAddr,
    /// Reason of the last failed handshake.
    pub reason: String,
    /// End of the tunnels, in Unix milliseconds.
    pub expires_ms: u64,
}

impl LearnedRow {
    /// Returns the end of the tunnels, for tables.
    pub(crate) fn expires(&self) -> String {
        time(self.expires_ms)
    }
}

/// State of a client and a host.
enum Pair {
    /// The first handshake failed at this time.
    Failed(Instant),
    Tunnel {
        until: Instant,
        reason: String,
    },
}

/// Pairs of a client and a host.
pub(crate) struct Learned(Mutex<LruCache<(IpAddr, Host), Pair>>);

impl Default for Learned {
    fn default() -> Self {
        let pairs = NonZeroUsize::new(PAIRS).unwrap_or(NonZeroUsize::MIN);
        Learned(Mutex::new(LruCache::new(pairs)))
    }
}

impl Learned {
    /// Returns whether the host is tunnelled for the client.
    pub(crate) fn is_tunnel(&self, client: SocketAddr, host: &Host, now: Instant) -> bool {
        let key = (network(client.ip()), host.clone());
        let mut pairs = self.0.lock();
        match pairs.get(&key) {
            Some(Pair::Tunnel { until, .. }) if now < *until => true,
            Some(Pair::Tunnel { .. }) => {
                pairs.pop(&key);
                false
            }
            _ => false,
        }
    }

    /// Records a handshake that the client rejected. Returns whether the host is now tunnelled for
    /// the client, for the time `lasts`.
    fn failed(&self, key: &(IpAddr, Host), reason: &str, now: Instant, lasts: Duration) -> bool {
        let mut pairs = self.0.lock();
        let (pair, learned) = match pairs.get(key) {
            // A connection from before the tunnel.
            Some(Pair::Tunnel { until, .. }) if now < *until => return false,
            Some(Pair::Failed(first)) if now.saturating_duration_since(*first) < WINDOW => {
                let tunnel = Pair::Tunnel {
                    until: now.checked_add(lasts).unwrap_or(now),
                    reason: reason.to_owned(),
                };
                (tunnel, true)
            }
            _ => (Pair::Failed(now), false),
        };
        pairs.put(key.clone(), pair);
        learned
    }

    /// Records a request of the client: the client accepts the interception of the host.
    fn succeeded(&self, key: &(IpAddr, Host)) {
        let mut pairs = self.0.lock();
        if let Some(Pair::Failed(_)) = pairs.peek(key) {
            pairs.pop(key);
        }
    }

    /// Returns the tunnelled hosts, the most recently used first.
    pub(crate) fn rows(&self) -> Vec<LearnedRow> {
        let (now, now_ms) = (Instant::now(), now_ms());
        let pairs = self.0.lock();
        let rows = pairs
            .iter()
            .filter_map(|((client, host), pair)| match pair {
                Pair::Tunnel { until, reason } if now < *until => Some(LearnedRow {
                    host: host.to_string(),
                    client: *client,
                    reason: reason.clone(),
                    expires_ms: now_ms + (*until - now).as_millis() as u64,
                }),
                _ => None,
            });
        rows.collect()
    }
}

/// An intercepted connection that shows whether the client accepts the interception. A client that
/// closes it soon, without a request, does not.
pub(crate) struct Trial {
    core: Arc<Core>,
    key: (IpAddr, Host),
    begun: Instant,
    /// Whether the outcome is recorded.
    decided: AtomicBool,
}

impl Trial {
    /// Starts when the proxy sends its certificate.
    pub(crate) fn new(core: &Arc<Core>, client: SocketAddr, host: &Host) -> Self {
        Trial {
            core: core.clone(),
            key: (network(client.ip()), host.clone()),
            begun: Instant::now(),
            decided: AtomicBool::new(false),
        }
    }

    /// Records a request on the connection.
    pub(crate) fn succeeded(&self) {
        if !self.decided.swap(true, Ordering::Relaxed) {
            self.core.learned.succeeded(&self.key);
        }
    }

    /// Ends without an outcome, because the reason of the failure is another one.
    pub(crate) fn void(self) {
        self.decided.store(true, Ordering::Relaxed);
    }

    /// Records that the client rejected the certificate.
    pub(crate) fn rejected(self, reason: &str) {
        self.failed(reason);
    }

    fn failed(&self, reason: &str) {
        if self.decided.swap(true, Ordering::Relaxed) {
            return;
        }
        let core = &self.core;
        let lasts = core.rules.load().learn_for;
        if core
            .learned
            .failed(&self.key, reason, Instant::now(), lasts)
        {
            core.stats.learned.inc();
            let (client, host) = &self.key;
            tracing::info!(
                %client,
                %host,
                "the client rejected two certificates of the proxy: its connections to the host are \
                 forwarded unchanged for {lasts:?}"
            );
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if self.begun.elapsed() < PROMPT {
            self.failed("The client closed the connection without a request.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn client(n: u8) -> SocketAddr {
        ([192, 0, 2, n], 5000).into()
    }

    fn key(n: u8, host: &str) -> (IpAddr, Host) {
        (client(n).ip(), Host::parse(host).unwrap())
    }

    #[test]
    fn two_failures_within_a_minute_make_a_tunnel_for_one_client() {
        let (learned, start) = (Learned::default(), Instant::now());
        let pinned = key(1, "pinned.test");
        assert!(!learned.failed(&pinned, "first", start, HOUR));
        let late = start + WINDOW;
        assert!(
            !learned.failed(&pinned, "late", late, HOUR),
            "the first is too old"
        );
        let second = late + Duration::from_secs(59);
        assert!(learned.failed(&pinned, "second", second, HOUR));
        let is_tunnel = |n, now| learned.is_tunnel(client(n), &pinned.1, now);
        assert!(is_tunnel(1, second) && !is_tunnel(2, second));
        // A connection from before cannot extend the time.
        assert!(!learned.failed(&pinned, "third", second, HOUR));
        let rows = learned.rows();
        assert_eq!((rows.len(), rows[0].reason.as_str()), (1, "second"));
        assert!(!is_tunnel(1, second + HOUR));
        assert!(learned.rows().is_empty());
        assert!(!learned.failed(&pinned, "again", second + HOUR, HOUR));
    }

    #[test]
    fn a_host_that_alternates_is_never_tunnelled() {
        let (learned, now) = (Learned::default(), Instant::now());
        let unsteady = key(1, "unsteady.test");
        for _ in 0..1000 {
            assert!(!learned.failed(&unsteady, "alert", now, HOUR));
            learned.succeeded(&unsteady);
        }
        assert!(learned.0.lock().is_empty());
        learned.failed(&unsteady, "alert", now, HOUR);
        learned.failed(&unsteady, "alert", now, HOUR);
        learned.succeeded(&unsteady);
        assert!(
            learned.is_tunnel(client(1), &unsteady.1, now),
            "a late request of a connection"
        );
    }

    #[test]
    fn pairs_are_bounded() {
        let (learned, now) = (Learned::default(), Instant::now());
        for n in 0..=PAIRS {
            let key = key(1, &format!("h{n}.test"));
            learned.failed(&key, "first", now, HOUR);
            learned.failed(&key, "second", now, HOUR);
        }
        assert_eq!(learned.rows().len(), PAIRS);
        assert!(!learned.is_tunnel(client(1), &key(1, "h0.test").1, now));
    }
}
