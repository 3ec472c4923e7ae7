//! The limits of the proxy: how much, and how long.

use std::time::Duration;

/// Holds what one HTTP/2 stream may send ahead of who reads it, in bytes: what the proxy
/// holds for a slow reader, and 40 Mbit/s at 100 ms.
pub(crate) const STREAM_WINDOW: u32 = 512 << 10;

/// Streams at a time on an HTTP/2 connection of a client: they hold 64 MiB at most.
pub(crate) const STREAMS: u32 = 128;

/// Fields in the head of a message of HTTP/1.1. More of a client are answered
/// with 431. Those of HTTP/2 are bounded in bytes, of which each counts 32
/// besides its own (RFC 9113 6.5.2).
pub(crate) const FIELDS: usize = 1000;

/// The bounds of a proxy.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections of clients at a time.
    pub connections: usize,
    /// The head of a request or an answer, in bytes.
    pub head_bytes: usize,
    /// Hosts that statistics are kept of; of others they are forgotten.
    pub hosts: usize,
    /// Connections to servers that are kept for the next request.
    pub idle_connections: usize,
    /// The time that they are kept.
    pub keep: Duration,
    /// For the head of a request, and how long a client may stay without one.
    pub head: Duration,
    /// For the TLS handshake with a client: from its first byte to its last.
    pub handshake: Duration,
    /// The time that a client may say nothing after CONNECT before its server is
    /// connected to: it may be one that waits for the server to speak first.
    pub silence: Duration,
    /// For finding and reaching a server, its TLS handshake included.
    pub connect: Duration,
    /// For a server to say whether it wants a body, where the client asked
    /// that: one that knows no expectations says nothing, and gets it then.
    pub expectation: Duration,
    /// For a server to begin its answer, once it has the request.
    pub answer: Duration,
    /// The time that bodies and tunnels may stand still.
    pub idle: Duration,
    /// For what is under way when the proxy stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 4096,
            head_bytes: 64 << 10,
            hosts: 1000,
            idle_connections: 512,
            keep: Duration::from_secs(60),
            head: Duration::from_secs(60),
            handshake: Duration::from_secs(10),
            silence: Duration::from_secs(3),
            connect: Duration::from_secs(10),
            expectation: Duration::from_secs(1),
            answer: Duration::from_secs(120),
            idle: Duration::from_secs(300),
            drain: Duration::from_secs(10),
        }
    }
}
