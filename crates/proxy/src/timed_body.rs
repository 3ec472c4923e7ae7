//! A body whose sender must not stop or be too slow.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::records::Tap;
use crate::stalled;

/// Reasons why a body ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// The connection of the sender broke.
    #[error(transparent)]
    Hyper(#[from] hyper::Error),
    /// The sender of the body reset the stream with NO_ERROR before the end.
    #[error("the stream was reset before the end of the body")]
    Reset,
    /// The sender of the body stopped sending.
    #[error("no byte arrived for {0:?}")]
    Still(Duration),
    /// The sender is too slow.
    #[error("fewer than {MIN_BYTES} bytes arrived in {0:?}")]
    Slow(Duration),
    #[error("the server responded without the body")]
    Unwanted,
}

impl BodyError {
    /// Returns the reason without the library's words around it.
    pub(crate) fn reason(&self) -> String {
        match self {
            BodyError::Hyper(error) => match std::error::Error::source(error) {
                Some(cause) => cause.to_string(),
                None => error.to_string(),
            },
            other => other.to_string(),
        }
    }
}

/// Minimum of bytes within the idle limit for a body of known length. Other bodies may be slow
/// streams of events.
const MIN_BYTES: u64 = 1024;

/// Size of the parts of a longer frame for an HTTP/2 receiver, in bytes. The idle limit applies to
/// each part, so large frames do not cut off slow receivers. HTTP/2 sends parts of this size anyway
/// (RFC 9113, section 6.5.2).
const PART: usize = 16 << 10;

/// Bytes of a body, and the time spent waiting for them.
#[derive(Default)]
struct Pace {
    bytes: u64,
    waited: Duration,
}

impl Pace {
    /// Adds `bytes` that arrived after a wait. Returns whether the bytes are too few for a wait of
    /// `idle` or more in total. Time without reads by the receiver is not counted.
    fn is_slow(&mut self, bytes: usize, waited: Duration, idle: Duration) -> bool {
        self.bytes += bytes as u64;
        self.waited += waited;
        self.waited >= idle && std::mem::take(self).bytes < MIN_BYTES
    }
}

/// A body whose sender must not stop or be too slow.
pub(crate) struct Timed {
    incoming: Incoming,
    /// HTTP version of the connection that the body arrives on.
    version: Version,
    idle: Duration,
    /// Timer, created at the first wait: most bodies need none.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Start of the current wait.
    waiting: Option<Instant>,
    /// Pace of a body of known length.
    pace: Option<Pace>,
    /// Bytes of the last frame that have not been returned yet.
    rest: Bytes,
    /// Counter of the bytes, if the exchange is recorded.
    tap: Option<Arc<Tap>>,
    /// The first frame, if it was read before the body is sent.
    first: Option<Option<Frame<Bytes>>>,
}

impl Timed {
    pub(crate) fn new(incoming: Incoming, version: Version, idle: Duration) -> Self {
        Timed {
            version,
            pace: incoming.size_hint().exact().map(|_| Pace::default()),
            incoming,
            idle,
            alarm: None,
            waiting: None,
            rest: Bytes::new(),
            tap: None,
            first: None,
        }
    }

    /// Counts the bytes of the body from now on, each once.
    pub(crate) fn tap(&mut self, tap: Arc<Tap>) {
        self.tap = Some(tap);
    }

    /// Reads the first frame, which [`poll_frame`](Self::poll_frame) then returns.
    ///
    /// # Errors
    /// If the body is invalid.
    pub(crate) fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let first = ready!(self.poll_frame(cx)).transpose()?;
        self.first = Some(first);
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(first.map(Ok));
        }
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(self.first_part(rest))));
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) {
            if let (Some(tap), Some(Ok(frame))) = (&self.tap, &frame)
                && let Some(bytes) = frame.data_ref()
            {
                tap.pass(bytes);
            }
            let waited = self.waiting.take().map(|since| since.elapsed());
            if let (Some(pace), Some(Ok(frame))) = (&mut self.pace, &frame) {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                if pace.is_slow(bytes, waited.unwrap_or_default(), self.idle) {
                    return Poll::Ready(Some(Err(BodyError::Slow(self.idle))));
                }
            }
            return Poll::Ready(match frame {
                None if self.is_cut_off() => Some(Err(BodyError::Reset)),
                None => None,
                Some(Err(error)) => Some(Err(error.into())),
                Some(Ok(frame)) => Some(Ok(match frame.into_data() {
                    Ok(bytes) => self.first_part(bytes),
                    Err(frame) => frame,
                })),
            });
        }
        let idle = self.idle;
        // The timer restarts after each frame: it fires only after silence.
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(idle)));
        if self.waiting.is_none() {
            let now = Instant::now();
            self.waiting = Some(now);
            alarm.as_mut().reset(now + idle);
        }
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyError::Still(idle))))
    }

    /// Returns the body with `sent`, the bytes of the frames before, at its front again.
    pub(crate) fn after(mut self, mut sent: Vec<u8>) -> Self {
        if !sent.is_empty() {
            sent.extend_from_slice(&self.rest);
            self.rest = sent.into();
        }
        self
    }

    /// Returns the first part of `bytes`, and keeps the rest for the next call.
    fn first_part(&mut self, mut bytes: Bytes) -> Frame<Bytes> {
        if bytes.len() > PART && stalled::is_http2() {
            self.rest = bytes.split_off(PART);
        }
        Frame::data(bytes)
    }

    /// Returns whether the end of the body is missing. hyper reports a normal end for an incomplete
    /// body if its stream is reset with NO_ERROR.
    fn is_cut_off(&self) -> bool {
        self.version == Version::HTTP_2 && !self.incoming.is_end_stream()
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_empty() && self.incoming.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let mut hint = self.incoming.size_hint();
        let rest = self.rest.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(300);

    #[test]
    fn next_to_nothing_is_slow_and_an_absent_reader_is_not() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::default();
        // Two bytes per second.
        for _ in 0..299 {
            assert!(!pace.is_slow(2, second, IDLE));
        }
        assert!(pace.is_slow(2, second, IDLE));
        // Four bytes per second.
        let mut pace = Pace::default();
        for _ in 0..10 {
            assert!(!pace.is_slow(600, IDLE / 2, IDLE));
        }
        // Bytes that the reader does not request cost no waiting time.
        for _ in 0..1000 {
            assert!(!pace.is_slow(1, Duration::ZERO, IDLE));
        }
    }
}
