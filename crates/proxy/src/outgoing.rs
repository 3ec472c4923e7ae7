//! Body of a request on its way to the server, forwarded frame by frame. Over HTTP/2, the start of
//! a body is kept until the response, because the server can refuse the request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use crate::expect::{BodyGate, Expectation};
use crate::records::Tap;
use crate::stalled;
use crate::streams::Stream;
use crate::timed_body::{BodyError, Timed};

/// Limit of the part of a body that is kept until the response, in bytes.
const REPLAYED: usize = 64 << 10;

/// Bytes of a body that were sent, and the receiver of the body with these bytes.
type Replay = (Vec<u8>, oneshot::Sender<Option<Timed>>);

pub(crate) struct Outgoing {
    body: Option<Timed>,
    replay: Option<Replay>,
    /// Gate and time limit of a body whose client sent `Expect: 100-continue`.
    held: Option<(BodyGate, Pin<Box<Sleep>>)>,
    /// Set whenever a frame has been forwarded.
    moving: Arc<AtomicBool>,
    /// The HTTP/2 stream that carries the body. The response may end first.
    stream: Option<Arc<Stream>>,
}

impl Outgoing {
    /// Creates the body, and a flag that is set whenever a frame has been forwarded. `tap` counts
    /// the bytes.
    pub(crate) fn new(
        incoming: Incoming,
        version: Version,
        idle: Duration,
        tap: Option<Arc<Tap>>,
    ) -> (Self, Arc<AtomicBool>) {
        let mut body = Timed::new(incoming, version, idle);
        if let Some(tap) = tap {
            body.tap(tap);
        }
        let body = Outgoing::of(Some(body));
        let moving = body.moving.clone();
        (body, moving)
    }

    pub(crate) fn empty() -> Self {
        Outgoing::of(None)
    }

    fn of(body: Option<Timed>) -> Self {
        Outgoing {
            body,
            replay: None,
            held: None,
            moving: Arc::default(),
            stream: None,
        }
    }

    /// Keeps the sent part of the body while it is small and the returned value is in use, so that
    /// the body can be sent again after this connection has dropped it.
    pub(crate) fn replay(&mut self) -> Again {
        let (back, body) = oneshot::channel();
        self.replay = Some((Vec::new(), back));
        Again(body, self.moving.clone())
    }

    /// Keeps a sent frame, or stops keeping the body.
    fn keep(&mut self, frame: &Frame<Bytes>) {
        let Some((sent, back)) = &mut self.replay else {
            return;
        };
        match frame.data_ref() {
            Some(bytes) if sent.len() + bytes.len() <= REPLAYED && !back.is_closed() => {
                sent.extend_from_slice(bytes);
            }
            _ => self.replay = None,
        }
    }

    /// Keeps the stream reserved until the body is dropped.
    pub(crate) fn occupy(&mut self, stream: Option<Arc<Stream>>) {
        self.stream = stream;
    }

    /// Holds the body back until the server requests it, or until `patience` is over.
    pub(crate) fn hold(&mut self, patience: Duration) -> BodyGate {
        let gate = BodyGate::new();
        self.held = Some((gate.clone(), Box::pin(sleep(patience))));
        gate
    }

    /// Waits until the body may be sent.
    fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let Some((gate, alarm)) = &mut self.held else {
            return Poll::Ready(Ok(()));
        };
        if alarm.as_mut().poll(cx).is_ready() {
            gate.open();
        }
        match ready!(gate.poll(cx)) {
            Expectation::Over => return Poll::Ready(Err(BodyError::Unwanted)),
            Expectation::Refused | Expectation::None => {
                // The body is dropped, so that the client's connection does not wait for it either.
                self.body = None;
                return Poll::Pending;
            }
            Expectation::Wanted => self.held = None,
        }
        Poll::Ready(Ok(()))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        // Waits before the first poll, because a poll causes hyper to request the body from the
        // client.
        if let Err(unwanted) = ready!(self.poll_wanted(cx)) {
            return Poll::Ready(Some(Err(unwanted)));
        }
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(body.poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => self.keep(frame),
            Some(Err(_)) => self.replay = None,
            None => {}
        }
        self.moving.store(true, Ordering::Relaxed);
        Poll::Ready(frame)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        stalled::dropped();
        if let Some((sent, back)) = self.replay.take() {
            let body = self.body.take().map(|body| body.after(sent));
            // Fails if the request has a response.
            let _ = back.send(body);
        }
    }
}

/// The body of a request that may be sent again.
pub(crate) struct Again(oneshot::Receiver<Option<Timed>>, Arc<AtomicBool>);

impl Again {
    /// Waits until the connection drops the body. Returns the whole body, unless too much of it was
    /// sent.
    pub(crate) async fn body(self) -> Option<Outgoing> {
        let mut body = Outgoing::of(self.0.await.ok()?);
        body.moving = self.1;
        Some(body)
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        stalled::polled(self.poll_next(cx))
    }

    fn is_end_stream(&self) -> bool {
        let body = self.body.as_ref();
        self.held.is_none() && body.is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or(SizeHint::with_exact(0), |body| body.size_hint())
    }
}
