//! The activity of a connection, and its timeouts.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::control_frames::ControlFrames;
use crate::signal::Signal;

/// The state of a connection, shared with its watchdog, with its requests, and with the table of
/// connections.
///
/// hyper could time the head of a request itself, with one timer per request. Here a request only
/// sets flags, and the clock is read only when a connection turns out to be slow.
pub(crate) struct Activity {
    since: Instant,
    /// Whether a request has arrived.
    used: AtomicBool,
    /// Number of requests that wait for their response.
    in_flight: AtomicU32,
    /// Time of the last response, in milliseconds since `since`.
    responded: AtomicU64,
    /// Whether bytes have arrived that belong to no complete request head.
    head: AtomicBool,
    /// Whether the client does not read the response.
    blocked: AtomicBool,
    /// Number of completed writes.
    writes: AtomicU32,
    /// Raised when the client has sent its last byte, or has reset the connection.
    pub(crate) ended: Signal,
    /// Raised while too many bytes of further requests are in memory.
    crowded: Signal,
    /// Number of requests that wait for a log to grow.
    pub(crate) waiting: AtomicU32,
    /// Whether the client has sent too many control frames.
    flooded: AtomicBool,
    /// Raised when the connection must give its place to another one.
    pub(crate) displaced: Signal,
}

const RELAXED: Ordering = Ordering::Relaxed;

impl Activity {
    pub(crate) fn new() -> Self {
        Activity {
            since: Instant::now(),
            used: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            responded: AtomicU64::new(0),
            head: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            writes: AtomicU32::new(0),
            ended: Signal::default(),
            crowded: Signal::default(),
            waiting: AtomicU32::new(0),
            flooded: AtomicBool::new(false),
            displaced: Signal::default(),
        }
    }

    /// Called when the first bytes for a new HTTP state have arrived.
    pub(crate) fn resume(&self) {
        let now = self.since.elapsed().as_millis() as u64;
        self.responded.store(now, RELAXED);
        self.used.store(false, RELAXED);
        self.head.store(false, RELAXED);
        self.blocked.store(false, RELAXED);
    }

    /// Returns the time of the last response, or of the connection's start; `None` if a request is
    /// in flight.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let responded = Duration::from_millis(self.responded.load(RELAXED));
        (self.in_flight.load(RELAXED) == 0).then(|| self.since + responded)
    }

    /// Returns `true` if the client has sent too many control frames.
    pub(crate) fn flooded(&self) -> bool {
        self.flooded.load(RELAXED)
    }

    /// Called when the head of a request is complete.
    pub(crate) fn begin(&self) {
        self.used.store(true, RELAXED);
        self.head.store(false, RELAXED);
        self.in_flight.fetch_add(1, RELAXED);
    }

    /// Returns `true` if a request has arrived.
    pub(crate) fn used(&self) -> bool {
        self.used.load(RELAXED)
    }

    /// Called when a response is ready to be written, or when a streamed response has ended.
    pub(crate) fn end(&self) {
        let now = self.since.elapsed().as_millis() as u64;
        self.responded.store(now, RELAXED);
        self.in_flight.fetch_sub(1, RELAXED);
    }

    /// Returns whether a request that waits for a log to grow must end: its client has gone, or has
    /// sent too many bytes in advance.
    pub(crate) fn is_unattended(&self) -> bool {
        self.ended.is_raised() || self.crowded.is_raised()
    }

    /// Waits until [`is_unattended`](Self::is_unattended).
    pub(crate) async fn unattended(&self) {
        tokio::select! {
            () = self.ended.raised() => {}
            () = self.crowded.raised() => {}
        }
    }

    fn phase(&self) -> Phase {
        if self.blocked.load(RELAXED) {
            Phase::Writing(self.writes.load(RELAXED))
        } else if self.in_flight.load(RELAXED) > 0 {
            Phase::Responding
        } else if self.head.load(RELAXED) {
            Phase::Head
        } else {
            Phase::Idle(self.responded.load(RELAXED))
        }
    }
}

/// The phases of a connection, by the event that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for a request. The value is the time of the last response, in milliseconds since the
    /// start of the connection.
    Idle(u64),
    /// Waits for the rest of a request head.
    Head,
    /// Waits for the log. Bodies and submissions have separate time limits.
    Responding,
    /// Waits for the client to read, after this number of writes.
    Writing(u32),
}

/// The reasons why the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimedOut {
    /// No request arrived until the idle timeout.
    Idle,
    /// The rest of a request head did not arrive in time.
    Head,
    /// The client read nothing until the write timeout.
    Writing,
}

/// The maximum duration of each phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Time without a request.
    pub(crate) idle: Duration,
    /// Time from the first to the last byte of a request head; `None` if the protocol does not show
    /// heads.
    pub(crate) head: Option<Duration>,
    /// Time limit for the client to read at least one byte.
    pub(crate) write: Duration,
}

/// Detects that a connection stays in one phase for too long.
#[derive(Debug)]
pub(crate) struct Watchdog {
    timeouts: Timeouts,
    phase: Phase,
    /// Time of the last response if the connection is idle, otherwise the time at which the phase
    /// was first observed.
    entered: Instant,
}

impl Watchdog {
    pub(crate) fn new(timeouts: Timeouts) -> Self {
        Watchdog {
            timeouts,
            phase: Phase::Idle(0),
            entered: Instant::now(),
        }
    }

    /// Checks the connection and returns the deadline of its current phase; `None` while the log
    /// responds. The clock is read only when a head or a blocked write begins.
    pub(crate) fn look(&mut self, activity: &Activity) -> Option<Instant> {
        let mut phase = activity.phase();
        if phase == Phase::Head && self.timeouts.head.is_none() {
            phase = Phase::Idle(activity.responded.load(RELAXED));
        }
        if phase != self.phase {
            self.phase = phase;
            self.entered = match phase {
                Phase::Idle(responded) => activity.since + Duration::from_millis(responded),
                Phase::Responding => self.entered,
                Phase::Head | Phase::Writing(_) => Instant::now(),
            };
        }
        let limit = match phase {
            Phase::Idle(_) => self.timeouts.idle,
            Phase::Head => self.timeouts.head?,
            Phase::Writing(_) => self.timeouts.write,
            Phase::Responding => return None,
        };
        Some(self.entered + limit)
    }

    /// Returns the reason for the timeout, once the deadline has passed.
    pub(crate) fn timed_out(&self) -> TimedOut {
        match self.phase {
            Phase::Idle(_) | Phase::Responding => TimedOut::Idle,
            Phase::Head => TimedOut::Head,
            Phase::Writing(_) => TimedOut::Writing,
        }
    }
}

/// Maximum number of bytes that are read while a request waits for a log to grow: dozens of
/// pipelined requests.
const MAX_AHEAD: usize = 16 << 10;

/// A stream that records activity.
pub(crate) struct ObservedStream<S> {
    pub(crate) stream: S,
    pub(crate) activity: std::sync::Arc<Activity>,
    /// The frames of an HTTP/2 client; `None` for HTTP/1.
    pub(crate) frames: Option<ControlFrames>,
    /// The bytes that were read before hyper needed them.
    pub(crate) ahead: BytesMut,
}

impl<S: AsyncRead + Unpin> AsyncRead for ObservedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let outcome = if self.ahead.is_empty() {
            Pin::new(&mut self.stream).poll_read(cx, buf)
        } else {
            let count = buf.remaining().min(self.ahead.len());
            buf.put_slice(&self.ahead.split_to(count));
            if self.ahead.is_empty() {
                self.ahead = BytesMut::new();
                self.activity.crowded.lower();
            }
            Poll::Ready(Ok(()))
        };
        if let Poll::Ready(Ok(())) = outcome {
            if buf.filled().len() == before {
                self.activity.ended.raise();
            } else if self.activity.in_flight.load(RELAXED) == 0 {
                self.activity.head.store(true, RELAXED);
            }
            let read = &buf.filled()[before..];
            if self.frames.as_mut().is_some_and(|frames| frames.read(read)) {
                self.activity.flooded.store(true, RELAXED);
                return Poll::Ready(Err(std::io::ErrorKind::InvalidData.into()));
            }
        }
        outcome
    }
}

impl<S> ObservedStream<S> {
    fn wrote<T>(&self, outcome: Poll<std::io::Result<T>>) -> Poll<std::io::Result<T>> {
        match outcome {
            Poll::Pending => self.activity.blocked.store(true, RELAXED),
            Poll::Ready(_) => {
                self.activity.blocked.store(false, RELAXED);
                let writes = self.activity.writes.load(RELAXED);
                self.activity.writes.store(writes.wrapping_add(1), RELAXED);
            }
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> ObservedStream<S> {
    /// Notices the end of a client whose request waits for a log to grow. hyper does not read
    /// HTTP/1 while a response is pending, but flushes whenever it is polled. Bytes are read ahead,
    /// because only a read shows the end with every kind of stream. A request whose client sends
    /// more than [`MAX_AHEAD`] in advance does not wait.
    fn look_ahead(&mut self, cx: &mut Context<'_>) {
        let is_http2 = self.frames.is_some();
        if is_http2 || self.activity.waiting.load(RELAXED) == 0 {
            return;
        }
        let mut bytes = [0; 512];
        while self.ahead.len() < MAX_AHEAD {
            let mut buf = ReadBuf::new(&mut bytes);
            if Pin::new(&mut self.stream)
                .poll_read(cx, &mut buf)
                .is_pending()
            {
                return;
            }
            if buf.filled().is_empty() {
                self.activity.ended.raise();
                return;
            }
            self.ahead.extend_from_slice(buf.filled());
        }
        self.activity.crowded.raise();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ObservedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_pending() {
            self.activity.blocked.store(true, RELAXED);
        }
        self.look_ahead(cx);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_timeout() {
        let activity = Activity::new();
        let mut watchdog = Watchdog::new(Timeouts {
            idle: Duration::from_secs(60),
            head: Some(Duration::from_secs(10)),
            write: Duration::from_secs(30),
        });
        let idle = watchdog.look(&activity).unwrap();
        assert_eq!(watchdog.timed_out(), TimedOut::Idle);

        activity.head.store(true, RELAXED);
        let head = watchdog.look(&activity).unwrap();
        assert!(head < idle);
        assert_eq!(watchdog.timed_out(), TimedOut::Head);
        assert_eq!(
            watchdog.look(&activity),
            Some(head),
            "not renewed by more bytes"
        );

        activity.begin();
        assert_eq!(watchdog.look(&activity), None);
        activity.end();
        assert!(watchdog.look(&activity).is_some());
        assert_eq!(watchdog.timed_out(), TimedOut::Idle);

        activity.blocked.store(true, RELAXED);
        let blocked = watchdog.look(&activity).unwrap();
        activity.writes.store(7, RELAXED);
        assert!(
            watchdog.look(&activity).unwrap() > blocked,
            "renewed by progress"
        );
        assert_eq!(watchdog.timed_out(), TimedOut::Writing);
    }
}
