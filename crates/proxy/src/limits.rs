//! Limits of the proxy: sizes, numbers and times.

use std::time::Duration;

/// Window of one HTTP/2 stream in bytes: the memory that the proxy needs for a slow reader. Allows
/// 40 Mbit/s at a round-trip time of 100 ms.
pub(crate) const STREAM_WINDOW: u32 = 512 << 10;

/// Limit of concurrent streams on a client's HTTP/2 connection. The windows of all streams take at
/// most 64 MiB.
pub(crate) const STREAMS: u32 = 128;

/// Limit of header fields in an HTTP/1.1 message. A client that sends more receives 431. HTTP/2
/// limits the size in bytes instead, with 32 extra bytes per field (RFC 9113, section 6.5.2).
pub(crate) const FIELDS: usize = 1000;

/// Returns the limit of the HTTP/2 library for a head. The limit is above the limit of the proxy,
/// because the proxy states its limit in the response, and the library does not.
pub(crate) fn http2_head(head_bytes: usize) -> u32 {
    u32::try_from(head_bytes.saturating_mul(4)).unwrap_or(u32::MAX)
}

/// Limits of a proxy.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Concurrent connections of clients.
    pub connections: usize,
    /// Concurrent connections of one client address (IPv6: /64).
    pub client_connections: usize,
    /// Size of the head of a request or a response, in bytes.
    pub head_bytes: usize,
    /// Hosts with statistics; the least recently used are forgotten.
    pub hosts: usize,
    /// Number of routes to servers whose connections are kept for later requests, at most 32 idle
    /// HTTP/1 connections and 256 HTTP/2 connections each.
    pub idle_connections: usize,
    /// Time that idle connections are kept.
    pub keep: Duration,
    /// Time for the head of a request, and for an idle client between requests.
    pub head: Duration,
    /// Time for the TLS handshake with a client, from its first byte to its last.
    pub handshake: Duration,
    /// Time that the proxy waits for a client's first bytes after CONNECT before it connects to the
    /// server. The client may wait for the server to send first.
    pub silence: Duration,
    /// Time for each step of reaching a server: resolving the name, connecting, and the TLS
    /// handshake.
    pub connect: Duration,
    /// Time for a server to respond to `Expect: 100-continue`. After that the body is sent, because
    /// a server that does not know expectations sends nothing.
    pub expectation: Duration,
    /// Time for a server to begin its response after it received the request.
    pub response: Duration,
    /// Time without a byte after which a body or a tunnel is closed.
    pub idle: Duration,
    /// Time for requests in progress when the proxy stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 4096,
            client_connections: 1024,
            head_bytes: 64 << 10,
            hosts: 1000,
            idle_connections: 512,
            keep: Duration::from_secs(60),
            head: Duration::from_secs(60),
            handshake: Duration::from_secs(10),
            silence: Duration::from_secs(3),
            connect: Duration::from_secs(10),
            expectation: Duration::from_secs(1),
            response: Duration::from_secs(120),
            idle: Duration::from_secs(300),
            drain: Duration::from_secs(10),
        }
    }
}
