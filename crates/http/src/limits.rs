//! Limits on the resources of the server, for one client and in total.

use std::time::Duration;

use lucarne_net::Network;

use crate::read_limits::ReadLimits;

/// Limits of the listeners, for all logs.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum length of the body of a submission in bytes; a longer body gets 413.
    pub body_bytes: usize,
    /// Maximum time from the first to the last byte of a request head. After that: 408. A TLS
    /// handshake that takes longer is cut off.
    pub header_timeout: Duration,
    /// Maximum time for the body of a submission to arrive. After that: 408.
    pub body_timeout: Duration,
    /// Maximum time that a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// Maximum time between two reads of a response by the client.
    pub write_timeout: Duration,
    /// Maximum time that a submission waits for its log to be opened at startup. After that: 503.
    pub start_timeout: Duration,
    /// Maximum time for requests in flight to finish at shutdown.
    pub drain_timeout: Duration,
    /// Maximum bytes of incomplete submissions and of responses that clients are receiving, for all
    /// clients. Beyond that: 503.
    pub inflight_bytes: usize,
    /// Maximum of [`inflight_bytes`](Self::inflight_bytes) for one client: an IPv4 address or an
    /// IPv6 /56. Beyond that: 503.
    pub client_inflight_bytes: usize,
    /// Maximum number of connections of all listeners; of one client, an eighth, unless the client
    /// may be a proxy. A further connection takes the place of an idle connection of the client
    /// with the most connections, or is closed. Without TLS, up to 64 of the closed connections get
    /// 429 or 503 first.
    pub connections: usize,
    /// Read limits of each client; requests beyond them get 429. `None` means unlimited.
    pub reads: Option<ReadLimits>,
    /// Trusted proxies, which forward the address of their client. `None` if proxies are not
    /// configured: then only requests that cannot have come through a proxy are limited. An empty
    /// list means that there are no proxies.
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
