//! The activity of a connection, and its timeouts.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The state that the parts of a connection tell its watchdog.
///
/// hyper could time a request's head itself, with a timer made and thrown away
/// per request. Here a request sets flags, and the clock is read only when a
/// connection turns out to be slow.
#[derive(Debug)]
pub(crate) struct Activity {
    since: Instant,
    /// Something was asked.
    used: AtomicBool,
    /// Requests whose answer is being made.
    in_flight: AtomicU32,
    /// The time when the last request was answered, in milliseconds after `since`.
    answered: AtomicU64,
    /// Bytes have come in that no request has claimed yet.
    head: AtomicBool,
    /// The client does not take what is written.
    blocked: AtomicBool,
    /// Writes that went through.
    writes: AtomicU32,
    /// The client has sent its last byte.
    ended: AtomicBool,
}

const RELAXED: Ordering = Ordering::Relaxed;

impl Activity {
    pub(crate) fn new() -> Self {
        Activity {
            since: Instant::now(),
            used: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            answered: AtomicU64::new(0),
            head: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            writes: AtomicU32::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// A request's head is complete.
    pub(crate) fn begin(&self) {
        self.used.store(true, RELAXED);
        self.head.store(false, RELAXED);
        self.in_flight.fetch_add(1, RELAXED);
    }

    /// Returns whether anything was asked.
    pub(crate) fn used(&self) -> bool {
        self.used.load(RELAXED)
    }

    /// Its answer is ready to be written.
    pub(crate) fn end(&self) {
        let now = self.since.elapsed().as_millis() as u64;
        self.answered.store(now, RELAXED);
        self.in_flight.fetch_sub(1, RELAXED);
    }

    /// Returns whether the client has sent its last byte.
    pub(crate) fn ended(&self) -> bool {
        self.ended.load(RELAXED)
    }

    fn phase(&self) -> Phase {
        if self.blocked.load(RELAXED) {
            Phase::Writing(self.writes.load(RELAXED))
        } else if self.in_flight.load(RELAXED) > 0 {
            Phase::Answering
        } else if self.head.load(RELAXED) {
            Phase::Head
        } else {
            Phase::Idle(self.answered.load(RELAXED))
        }
    }
}

/// The phases of a connection, by what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// For a request, since the last one was answered.
    Idle(u64),
    /// For the rest of a request's head.
    Head,
    /// For the log. Bodies and submissions have time limits of their own.
    Answering,
    /// For the client to take what is written, after so many writes.
    Writing(u32),
}

/// The reasons why a connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimedOut {
    /// Nothing was asked for a long time.
    Idle,
    /// A request's head did not come to its end.
    Head,
    /// The client does not read.
    Writing,
}

/// The time that each phase may last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Without a request.
    pub(crate) idle: Duration,
    /// From the first byte of a head to its last, where heads can be told.
    pub(crate) head: Option<Duration>,
    /// Without the client taking a byte.
    pub(crate) write: Duration,
}

/// Finds out when a connection has been in one phase for too long.
#[derive(Debug)]
pub(crate) struct Watchdog {
    timeouts: Timeouts,
    phase: Phase,
    /// The time when the phase was first seen.
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

    /// Looks at the connection, and says until when it may go on like this.
    /// The clock is read only when a phase is entered that has to be timed
    /// from now on.
    pub(crate) fn look(&mut self, activity: &Activity) -> Option<Instant> {
        let mut phase = activity.phase();
        if phase == Phase::Head && self.timeouts.head.is_none() {
            phase = Phase::Idle(activity.answered.load(RELAXED));
        }
        if phase != self.phase {
            self.phase = phase;
            self.entered = match phase {
                Phase::Idle(answered) => activity.since + Duration::from_millis(answered),
                Phase::Answering => self.entered,
                Phase::Head | Phase::Writing(_) => Instant::now(),
            };
        }
        let limit = match phase {
            Phase::Idle(_) => self.timeouts.idle,
            Phase::Head => self.timeouts.head?,
            Phase::Writing(_) => self.timeouts.write,
            Phase::Answering => return None,
        };
        Some(self.entered + limit)
    }

    /// Returns what the connection is too late with, once the deadline has passed.
    pub(crate) fn timed_out(&self) -> TimedOut {
        match self.phase {
            Phase::Idle(_) | Phase::Answering => TimedOut::Idle,
            Phase::Head => TimedOut::Head,
            Phase::Writing(_) => TimedOut::Writing,
        }
    }
}

/// A stream that tells what passes.
pub(crate) struct ObservedStream<S> {
    pub(crate) stream: S,
    pub(crate) activity: std::sync::Arc<Activity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for ObservedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = outcome {
            if buf.filled().len() == before {
                self.activity.ended.store(true, RELAXED);
            } else if self.activity.in_flight.load(RELAXED) == 0 {
                self.activity.head.store(true, RELAXED);
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

impl<S: AsyncWrite + Unpin> AsyncWrite for ObservedStream<S> {
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
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Pending => {
                self.activity.blocked.store(true, RELAXED);
                Poll::Pending
            }
            ready => ready,
        }
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
