//! A body whose sender may neither stand still nor send next to nothing.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

/// The reasons why a body ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// Its sender broke off.
    #[error(transparent)]
    Hyper(#[from] hyper::Error),
    /// Its sender reset the stream with NO_ERROR before its end.
    #[error("its stream was reset before its end")]
    Reset,
    /// Its sender stopped sending.
    #[error("nothing came for {0:?}")]
    Still(Duration),
    /// Its sender sends next to nothing.
    #[error("less than {LEAST} bytes came in {0:?}")]
    Slow(Duration),
    /// The server has answered without waiting for it.
    #[error("the server did not want it")]
    Unwanted,
}

/// A body of known length must bring so many bytes in the time that it may stand still. Others may
/// be streams of events, which are slow by nature.
const LEAST: u64 = 1024;

/// The pace of a body: the bytes that came, and how long they were waited for.
#[derive(Default)]
struct Pace {
    bytes: u64,
    waited: Duration,
}

impl Pace {
    /// So many bytes have come after such a wait. Returns whether they are too few for a wait of
    /// `idle` or more: what its receiver does not read is not its sender's fault.
    fn is_slow(&mut self, bytes: usize, waited: Duration, idle: Duration) -> bool {
        self.bytes += bytes as u64;
        self.waited += waited;
        self.waited >= idle && std::mem::take(self).bytes < LEAST
    }
}

/// A body whose sender must not stand still for too long, nor be too slow.
pub(crate) struct Timed {
    incoming: Incoming,
    /// The version of HTTP that it comes by.
    version: Version,
    idle: Duration,
    /// Made when it has to be waited for the first time: most never are.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Since when it is waited for.
    waiting: Option<Instant>,
    /// Of a body of known length.
    pace: Option<Pace>,
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
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) {
            let waited = self.waiting.take().map(|since| since.elapsed());
            if let (Some(pace), Some(Ok(frame))) = (&mut self.pace, &frame) {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                if pace.is_slow(bytes, waited.unwrap_or_default(), self.idle) {
                    return Poll::Ready(Some(Err(BodyError::Slow(self.idle))));
                }
            }
            return Poll::Ready(match frame {
                None if self.is_cut_off() => Some(Err(BodyError::Reset)),
                frame => frame.map(|frame| frame.map_err(BodyError::from)),
            });
        }
        let idle = self.idle;
        // Set anew whenever bytes have come: it rings after silence only.
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(idle)));
        if self.waiting.is_none() {
            let now = Instant::now();
            self.waiting = Some(now);
            alarm.as_mut().reset(now + idle);
        }
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyError::Still(idle))))
    }

    /// Returns whether a body that has ended lacks its end: hyper ends it without an error if
    /// its stream is reset with NO_ERROR, also if the rest of it is missing.
    fn is_cut_off(&self) -> bool {
        self.version == Version::HTTP_2 && !self.incoming.is_end_stream()
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
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
        // Two bytes a second.
        for _ in 0..299 {
            assert!(!pace.is_slow(2, second, IDLE));
        }
        assert!(pace.is_slow(2, second, IDLE));
        // Four bytes a second.
        let mut pace = Pace::default();
        for _ in 0..10 {
            assert!(!pace.is_slow(600, IDLE / 2, IDLE));
        }
        // Whatever the reader does not ask for is not waited for.
        for _ in 0..1000 {
            assert!(!pace.is_slow(1, Duration::ZERO, IDLE));
        }
    }
}
