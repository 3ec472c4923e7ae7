//! Measurements of one request, and the failures of requests.

use std::time::{Duration, Instant};

use crate::http::kind;

/// Timings and sizes of one request. `None` means that a phase did not happen: a reused connection
/// has no `connect`, plain HTTP no `tls`.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Start of the request, before connecting.
    pub started: Instant,
    /// End of the request, successful or not.
    pub finished: Instant,
    /// Time to the established TCP connection.
    pub connect: Option<Duration>,
    /// Address family of the new connection.
    pub family: Option<Family>,
    /// Time from the TCP connection to the end of the TLS handshake.
    pub tls: Option<Duration>,
    /// Time from the ready connection to the write of the last byte of the request.
    pub sending: Option<Duration>,
    /// Time from the end of `sending` to the first byte of the response.
    pub first_byte: Option<Duration>,
    /// Time from the first to the last byte of the response.
    pub body: Option<Duration>,
    /// Status of the response; 0 without a response.
    pub status: u16,
    /// Protocol of the request, for example `"HTTP/1.1"` or `"HTTP/2"`.
    pub protocol: &'static str,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Bytes of the response's body in its content coding.
    pub body_in: u64,
    /// Bytes of the request's body.
    pub body_out: u64,
    /// True if the response lasted until the connection ended, and TLS ended without
    /// `close_notify`: a warning, because part of the response may be missing.
    pub unannounced_end: bool,
    /// Reason why the request was sent a second time; `None` if it was sent once.
    pub resent: Option<Resent>,
    /// Result of the request. The scenario decides which statuses are expected.
    pub outcome: Result<(), Failure>,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Exchange {
    /// Returns whether a response arrived, even an unexpected one. A certificate shows that the
    /// target responds; an incomplete response at the time limit does not.
    pub(crate) fn is_answered(&self) -> bool {
        let shows = |failure: &Failure| match failure.kind {
            kind::CERTIFICATE => true,
            kind::TIMEOUT => false,
            _ => self.status > 0,
        };
        self.outcome.as_ref().map_or_else(shows, |()| true)
    }

    /// Adds the time of a new connection, which was opened for this request.
    pub fn includes_connection(&mut self, opened: &Exchange) {
        self.started = opened.started;
        (self.connect, self.family, self.tls) = (opened.connect, opened.family, opened.tls);
    }

    /// Creates the exchange of a request that ends now without a response.
    pub fn without_response(
        started: Instant,
        protocol: &'static str,
        outcome: Result<(), Failure>,
    ) -> Self {
        Exchange {
            started,
            finished: Instant::now(),
            connect: None,
            family: None,
            tls: None,
            sending: None,
            first_byte: None,
            body: None,
            status: 0,
            protocol,
            bytes_in: 0,
            bytes_out: 0,
            body_in: 0,
            body_out: 0,
            unannounced_end: false,
            resent: None,
            outcome,
        }
    }
}

/// Reasons why a request was sent again: its kept connection ended before any byte of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resent {
    /// The connection had been idle, and the server closed it.
    Idle,
    /// The connection was in use, and broke under load.
    Busy,
}

/// A failure: its kind, and details.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct Failure {
    /// Stable name of the kind. [`kind`] lists the kinds of the client;
    /// scenarios add their own.
    pub kind: &'static str,
    /// Details of the failure. The run keeps the details of the first ten failures of each kind.
    pub detail: String,
}

impl Failure {
    /// Creates a failure of this kind.
    pub fn new(kind: &'static str, detail: impl Into<String>) -> Self {
        Failure {
            kind,
            detail: detail.into(),
        }
    }
}

/// Limit of the kept details of each kind of failure.
pub(crate) const DETAILS: usize = 10;
