use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::answer::Answer;
use super::{Handshake, Response, Version};
use crate::exchange::{Family, Resent};
use crate::{Exchange, Failure};

/// Timings of a request in progress.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) started: Instant,
    pub(super) connect: Option<Duration>,
    family: Option<Family>,
    pub(super) tls: Option<Duration>,
    /// Time at which the connection was ready.
    pub(super) ready: Instant,
    /// The time at which the write of the last byte of the request began.
    pub(super) sent: Option<Instant>,
    /// Time at which the first byte of the response was read.
    pub(super) first: Option<Instant>,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    /// Bytes of the request's body.
    pub(super) body_out: u64,
    pub(super) answer: Answer<'a>,
    pub(super) resent: Option<Resent>,
    pub(super) unannounced_end: bool,
    pub(super) handshake: Option<Box<Handshake>>,
}

impl<'a> Record<'a> {
    pub(super) fn new(answer: Answer<'a>) -> Self {
        let now = Instant::now();
        Self {
            started: now,
            connect: None,
            family: None,
            tls: None,
            ready: now,
            sent: None,
            first: None,
            bytes_in: 0,
            bytes_out: 0,
            body_out: 0,
            answer,
            resent: None,
            unannounced_end: false,
            handshake: None,
        }
    }

    /// Records a new connection, which was established in this time.
    pub(super) fn connected(&mut self, stream: &TcpStream, took: Duration) {
        self.connect = Some(took);
        let peer = stream.peer_addr().ok();
        self.family = peer.map(|peer| {
            if peer.is_ipv6() {
                Family::V6
            } else {
                Family::V4
            }
        });
    }

    /// Resets the timings for a repetition on another connection.
    pub(super) fn again(&mut self, why: Resent) {
        self.resent = Some(why);
        self.sent = None;
    }

    /// Describes the progress, for messages.
    pub(super) fn phase(&self) -> &'static str {
        match (self.sent, self.first) {
            (_, Some(_)) => "while the response was read",
            (Some(_), None) => "while waiting for the response",
            (None, None) => "before the request was sent",
        }
    }

    /// Converts the record into a response.
    pub(super) fn finish(self, version: Version, outcome: Result<(), Failure>) -> Response {
        let finished = Instant::now();
        // A response may arrive before the request is completely sent.
        let sent = self.sent.or(self.first);
        let answer = self.answer;
        Response {
            exchange: Exchange {
                started: self.started,
                finished,
                connect: self.connect,
                family: self.family,
                tls: self.tls,
                sending: sent.map(|sent| sent.saturating_duration_since(self.ready)),
                first_byte: sent
                    .zip(self.first)
                    .map(|(sent, first)| first.saturating_duration_since(sent)),
                body: self
                    .first
                    .map(|first| finished.saturating_duration_since(first)),
                status: answer.status,
                protocol: version.name(),
                bytes_in: self.bytes_in,
                bytes_out: self.bytes_out,
                body_in: answer.body.length,
                body_out: self.body_out,
                unannounced_end: self.unannounced_end,
                resent: self.resent,
                outcome,
            },
            status: answer.status,
            headers: answer.headers,
            is_too_long: answer.body.is_too_long,
            body: answer.body.into_bytes(),
            handshake: self.handshake,
        }
    }
}
