//! Body of a response on its way to the client: forwarded frame by frame, never collected.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::timeout;

use crate::pool::Occupied;
use crate::stalled;
use crate::timed_body::{BodyError, Timed};

pub(crate) enum Body {
    /// A body that the proxy wrote; `None` if it is empty or already sent.
    Full(Option<Bytes>),
    /// A server's body.
    Server(Box<ServerBody>),
}

/// A server's body. The connection is available for other requests after the last frame.
pub(crate) struct ServerBody {
    body: Timed,
    occupied: Option<Occupied>,
    /// Called if the body ends early.
    on_error: Option<OnError>,
    /// The error that ended the body, until it is returned.
    error: Option<BodyError>,
}

/// Callback for the error that ended a body early.
pub(crate) type OnError = Box<dyn FnOnce(&BodyError) + Send + Sync>;

/// Time for the first part of a chunked body to arrive before the head is sent. A server that sends
/// an invalid first chunk usually sends it together with the head, and the client then receives an
/// error response instead of a body that is cut off.
const FIRST_PART: Duration = Duration::from_millis(20);

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
        occupied: Occupied,
    ) -> Self {
        Body::Server(Box::new(ServerBody {
            body: Timed::new(incoming, version, idle),
            occupied: Some(occupied),
            on_error: None,
            error: None,
        }))
    }

    /// Waits for a moment for the first part of a chunked body.
    ///
    /// # Errors
    /// If this part is invalid.
    pub(crate) async fn begin(&mut self) -> Result<(), BodyError> {
        let Body::Server(body) = self else {
            return Ok(());
        };
        let first = poll_fn(|cx| body.body.poll_first(cx));
        timeout(FIRST_PART, first).await.unwrap_or(Ok(()))
    }

    /// Calls `on_error` if the body ends early.
    pub(crate) fn on_error(&mut self, on_error: OnError) {
        if let Body::Server(body) = self {
            body.on_error = Some(on_error);
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self {
            Body::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Server(body) => body.poll_next(cx),
        }
    }
}

impl ServerBody {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let frame = ready!(self.body.poll_frame(cx));
        match frame {
            None => release(&mut self.occupied),
            // Trailers are the last frame.
            Some(Ok(ref frame)) if frame.is_trailers() => release(&mut self.occupied),
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                // The connection is unusable after an error.
                drop(self.occupied.take());
                if let Some(on_error) = self.on_error.take() {
                    on_error(&error);
                }
                // hyper sends the head and the earlier frames before the next poll. With an error
                // at once, it would drop them.
                self.error = Some(error);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        Poll::Ready(frame)
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
            Body::Server(body) => body.error.is_none() && body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Body::Server(body) => body.body.size_hint(),
        }
    }
}

fn release(occupied: &mut Option<Occupied>) {
    if let Some(occupied) = occupied.take() {
        occupied.release();
    }
}

impl Drop for Body {
    /// Releases the connection of a body of known length, because hyper does not poll the body to
    /// its end.
    fn drop(&mut self) {
        if let Body::Server(body) = self
            && body.error.is_none()
            && body.body.is_end_stream()
        {
            release(&mut body.occupied);
        }
    }
}
