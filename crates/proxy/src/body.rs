//! Body of a response on its way to the client: forwarded frame by frame, never collected.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use crate::pool::Lease;
use crate::stalled;
use crate::timed_body::{BodyError, Timed};

pub(crate) enum Body {
    /// A body that the proxy wrote; `None` if it is empty or already sent.
    Full(Option<Bytes>),
    /// A server's body. The connection returns to the pool after the last frame.
    Server(Timed, Option<Lease>),
}

impl Body {
    pub(crate) fn full(bytes: Bytes) -> Self {
        Body::Full(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    pub(crate) fn empty() -> Self {
        Body::Full(None)
    }

    pub(crate) fn server(
        incoming: Incoming,
        version: Version,
        idle: Duration,
        lease: Option<Lease>,
    ) -> Self {
        Body::Server(Timed::new(incoming, version, idle), lease)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self {
            Body::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Server(body, lease) => {
                let frame = ready!(body.poll_frame(cx));
                match &frame {
                    None => release(lease),
                    // Trailers are the last frame.
                    Some(Ok(frame)) if frame.is_trailers() => release(lease),
                    // The connection is unusable after an error.
                    Some(Err(_)) => drop(lease.take()),
                    Some(Ok(_)) => {}
                }
                Poll::Ready(frame)
            }
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        stalled::polled(self.poll_next(cx))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Full(bytes) => bytes.is_none(),
            Body::Server(body, _) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Body::Server(body, _) => body.size_hint(),
        }
    }
}

fn release(lease: &mut Option<Lease>) {
    if let Some(lease) = lease.take() {
        lease.release();
    }
}

impl Drop for Body {
    /// Releases the connection of a body of known length, because hyper does not poll the body to
    /// its end.
    fn drop(&mut self) {
        if let Body::Server(body, lease) = self
            && body.is_end_stream()
        {
            release(lease);
        }
    }
}
