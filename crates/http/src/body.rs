//! The one response body: nothing, or bytes whose size is known.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// A body that is already there.
///
/// Every answer of a log is a slice of memory before it is sent, so one
/// concrete type does: no boxing, no dynamic dispatch, and hyper knows the
/// exact length and writes `Content-Length` by itself.
#[derive(Debug, Default)]
pub(crate) struct Body(Bytes);

impl Body {
    /// Number of bytes that are still to be sent.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.0
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Body(bytes.into())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.0)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}
