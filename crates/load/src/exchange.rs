//! One request with its response, and failures.

use std::time::{Duration, Instant};

/// The cost of one request. `None` says that a phase did not happen: a reused
/// connection has no `connect`, plain HTTP no `tls`.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The time at which it was begun, before connecting.
    pub started: Instant,
    /// The time at which it was over, whether well or not.
    pub finished: Instant,
    /// Until the TCP connection stood.
    pub connect: Option<Duration>,
    /// From then until the TLS handshake was over.
    pub tls: Option<Duration>,
    /// Until the request was handed to the system.
    pub sending: Option<Duration>,
    /// From then until the first byte of the response.
    pub first_byte: Option<Duration>,
    /// From then until its last byte.
    pub body: Option<Duration>,
    /// The response's status; 0 if there was no response.
    pub status: u16,
    /// `"HTTP/1.1"`, `"HTTP/2.0"`; what the scenario speaks.
    pub protocol: &'static str,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Bytes of the response's body alone, as they were sent.
    pub body_in: u64,
    /// Bytes of the request's body alone.
    pub body_out: u64,
    /// True if the response lasted until the connection ended, and TLS ended without
    /// `close_notify`: a warning, because part of the response may be missing.
    pub unannounced_end: bool,
    /// The reason why the request was sent twice, if it was.
    pub resent: Option<Resent>,
    /// `Ok` if it was as it should be. Which statuses are expected is the
    /// scenario's business.
    pub outcome: Result<(), Failure>,
}

/// The reason why a request was sent twice: its kept connection was reset before any byte of
/// a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resent {
    /// The connection had been idle: the server had closed it.
    Idle,
    /// The connection was in use: it broke under load.
    Busy,
}

/// A failure: its kind, and the particulars.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct Failure {
    /// A stable word: `connect_refused`, `connect_timeout`, `dns`, `tls`,
    /// `reset`, `timeout`, `protocol`, `status`, `body`; scenarios have their own.
    pub kind: &'static str,
    /// The particulars. Those of the first ten failures of a kind are kept.
    pub detail: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: &'static str, detail: impl Into<String>) -> Self {
        Failure {
            kind,
            detail: detail.into(),
        }
    }
}

/// As many details of failures are kept, of each kind.
pub(crate) const DETAILS: usize = 10;
