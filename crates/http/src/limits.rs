//! The limits of what one client may take of the server.

use std::time::Duration;

use lucarne_net::Network;

use crate::read_limits::ReadLimits;

/// Limits of the listeners, for all logs.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most bytes in the body of a submission; beyond: 413.
    pub body_bytes: usize,
    /// Longest time from the first byte of a request's head to its last; also
    /// of a TLS handshake. Beyond: 408.
    pub header_timeout: Duration,
    /// Longest time in which the body of a submission must arrive. Beyond: 408.
    pub body_timeout: Duration,
    /// Longest time that a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// Longest time without the client taking a single byte of an answer.
    pub write_timeout: Duration,
    /// Longest time that a submission waits for its log to be opened at a start.
    /// Beyond: 503.
    pub start_timeout: Duration,
    /// Longest time that requests in flight get to finish at shutdown.
    pub drain_timeout: Duration,
    /// Most bytes of bodies that are waited for, of submissions that arrive and of
    /// answers that were made for one client and are being taken; beyond: 503.
    pub inflight_bytes: usize,
    /// Those of one client: an IPv4 address or an IPv6 /56. Beyond: 503.
    pub client_inflight_bytes: usize,
    /// Most connections over all listeners; beyond: 503, then closed.
    pub connections: usize,
    /// The most that each client may read; beyond: 429. `None` for as much as it likes.
    pub reads: Option<ReadLimits>,
    /// The proxies that say for whom they ask. `None` if nobody says whether there are any: then only what
    /// cannot have come through one is counted. An empty list says that there are none.
    pub trusted_proxies: Option<Vec<Network>>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: 512 << 10,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            start_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(15),
            inflight_bytes: 256 << 20,
            client_inflight_bytes: 32 << 20,
            connections: 16_384,
            reads: Some(ReadLimits::default()),
            trusted_proxies: None,
        }
    }
}
