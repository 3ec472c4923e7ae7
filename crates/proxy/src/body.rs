//! Body of a response on its way to the client: forwarded frame by frame, never collected.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::timeout;

use crate::pool::Occupied;
use crate::records::{Recording, Tap};
use crate::stalled;
use crate::timed_body::{BodyError, Timed};

pub(crate) struct Body {
    content: Content,
    /// Record of the exchange, which ends with the body.
    recording: Option<Box<Recording>>,
}

enum Content {
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
        Content::Full(Some(bytes).filter(|bytes| !bytes.is_empty())).into()
    }

    pub(crate) fn empty() -> Self {
        Content::Full(None).into()
    }

    pub(crate) fn server(
        incoming: Incoming,
        version: Version,
        idle: Duration,
        occupied: Occupied,
    ) -> Self {
        let body = ServerBody {
            body: Timed::new(incoming, version, idle),
            occupied: Some(occupied),
            on_error: None,
            error: None,
        };
        Content::Server(Box::new(body)).into()
    }

    /// Waits for a moment for the first part of a chunked body.
    ///
    /// # Errors
    /// If this part is invalid.
    pub(crate) async fn begin(&mut self) -> Result<(), BodyError> {
        let Content::Server(body) = &mut self.content else {
            return Ok(());
        };
        let first = poll_fn(|cx| body.body.poll_first(cx));
        timeout(FIRST_PART, first).await.unwrap_or(Ok(()))
    }

    /// Calls `on_error` if the body ends early.
    pub(crate) fn on_error(&mut self, on_error: OnError) {
        if let Content::Server(body) = &mut self.content {
            body.on_error = Some(on_error);
        }
    }

    /// Counts the bytes of a server's body.
    pub(crate) fn tap(&mut self, tap: Arc<Tap>) {
        if let Content::Server(body) = &mut self.content {
            body.body.tap(tap);
        }
    }

    /// Ends the record when the body ends.
    pub(crate) fn record(&mut self, recording: Box<Recording>) {
        if let Content::Full(Some(bytes)) = &self.content {
            recording.response.pass(bytes);
        }
        self.recording = Some(recording);
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let body = match &mut self.content {
            Content::Full(bytes) => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
            Content::Server(body) => body,
        };
        let next = body.poll_next(cx);
        if let (Some(error), Some(recording)) = (&body.error, &mut self.recording) {
            recording.broke("http_response_incomplete", error.reason());
        }
        next
    }
}

impl From<Content> for Body {
    fn from(content: Content) -> Self {
        Body {
            content,
            recording: None,
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
        match &self.content {
            Content::Full(bytes) => bytes.is_none(),
            Content::Server(body) => body.error.is_none() && body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            Content::Server(body) => body.body.size_hint(),
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
        let Content::Server(body) = &mut self.content else {
            return;
        };
        if body.error.is_none() && body.body.is_end_stream() {
            release(&mut body.occupied);
        }
        // Until the end of the body, the response occupies the connection.
        if let (Some(_), Some(recording)) = (&body.occupied, &mut self.recording) {
            recording.aborted();
        }
    }
}
