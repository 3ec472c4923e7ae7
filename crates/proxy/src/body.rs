//! Bodies on their way through: passed on as they come, never gathered.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

use crate::expect::{BodyGate, Expectation};
use crate::pool::Lease;

/// The reasons why a body ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// Its sender broke off.
    #[error(transparent)]
    Hyper(#[from] hyper::Error),
    /// Its sender stopped sending.
    #[error("nothing came for {0:?}")]
    Still(Duration),
    /// The server has answered without waiting for it.
    #[error("the server did not want it")]
    Unwanted,
}

/// The body of an answer.
pub(crate) enum Body {
    /// The proxy's own.
    Full(Option<Bytes>),
    /// A server's. The connection is free for the next request once it has
    /// been read.
    Server(Timed, Option<Lease>),
}

impl Body {
    pub(crate) fn full(bytes: Bytes) -> Self {
        Body::Full(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    pub(crate) fn empty() -> Self {
        Body::Full(None)
    }

    pub(crate) fn server(incoming: Incoming, idle: Duration, lease: Option<Lease>) -> Self {
        Body::Server(Timed::new(incoming, idle), lease)
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Body::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Server(body, lease) => {
                let frame = ready!(body.poll_frame(cx));
                match &frame {
                    None => release(lease),
                    // Nothing comes after them.
                    Some(Ok(frame)) if frame.is_trailers() => release(lease),
                    // The connection is no good to anybody.
                    Some(Err(_)) => drop(lease.take()),
                    Some(Ok(_)) => {}
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Full(bytes) => bytes.is_none(),
            Body::Server(body, _) => body.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Body::Server(body, _) => body.incoming.size_hint(),
        }
    }
}

fn release(lease: &mut Option<Lease>) {
    if let Some(lease) = lease.take() {
        lease.release();
    }
}

impl Drop for Body {
    /// A body of known length is not asked for its end.
    fn drop(&mut self) {
        if let Body::Server(body, lease) = self
            && body.incoming.is_end_stream()
        {
            release(lease);
        }
    }
}

/// A body whose sender must not stand still for too long.
pub(crate) struct Timed {
    incoming: Incoming,
    idle: Duration,
    /// Made when it has to be waited for the first time: most never are.
    alarm: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Timed {
    fn new(incoming: Incoming, idle: Duration) -> Self {
        Timed {
            incoming,
            idle,
            alarm: None,
            waiting: false,
        }
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) {
            self.waiting = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        let idle = self.idle;
        // Set anew whenever bytes have come: it rings after silence only.
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(idle)));
        if !self.waiting {
            self.waiting = true;
            alarm.as_mut().reset(Instant::now() + idle);
        }
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyError::Still(idle))))
    }
}

/// The body of a request, on its way to the server.
pub(crate) struct Outgoing {
    body: Option<Timed>,
    /// Holds what it waits before, and for how long, where the client asked whether
    /// it is wanted.
    held: Option<(BodyGate, Pin<Box<Sleep>>)>,
    /// Raised whenever some of it has been passed on.
    moving: Arc<AtomicBool>,
}

impl Outgoing {
    /// The body, and a flag that is raised whenever some of it has moved.
    pub(crate) fn new(incoming: Incoming, idle: Duration) -> (Self, Arc<AtomicBool>) {
        let moving = Arc::<AtomicBool>::default();
        let body = Outgoing {
            body: Some(Timed::new(incoming, idle)),
            held: None,
            moving: moving.clone(),
        };
        (body, moving)
    }

    /// None.
    pub(crate) fn empty() -> Self {
        Outgoing {
            body: None,
            held: None,
            moving: Arc::default(),
        }
    }

    /// Holds it back until the server wants it, or has been given the time to
    /// say so.
    pub(crate) fn hold(&mut self, patience: Duration) -> BodyGate {
        let gate = BodyGate::new();
        self.held = Some((gate.clone(), Box::pin(sleep(patience))));
        gate
    }

    /// Ready once it may be sent.
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
                // The client's connection need not wait for it either.
                self.body = None;
                return Poll::Pending;
            }
            Expectation::Wanted => self.held = None,
        }
        Poll::Ready(Ok(()))
    }
}

impl HttpBody for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        // Polling the client's body is what tells the client to send it.
        if let Err(unwanted) = ready!(self.poll_wanted(cx)) {
            return Poll::Ready(Some(Err(unwanted)));
        }
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(body.poll_frame(cx));
        self.moving.store(true, Ordering::Relaxed);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let body = self.body.as_ref();
        self.held.is_none() && body.is_none_or(|body| body.incoming.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or(SizeHint::with_exact(0), |body| body.incoming.size_hint())
    }
}
