//! The one response body: nothing, or bytes whose size is known.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use lucarne_log::OpenFile;

/// A body that is already there.
///
/// Every answer of a log is a slice of memory before it is sent, so one
/// concrete type does: no boxing, no dynamic dispatch, and hyper knows the
/// exact length and writes `Content-Length` by itself.
#[derive(Debug, Default)]
pub(crate) struct Body {
    bytes: Bytes,
    file: Option<Arc<OpenFile>>,
}

impl Body {
    /// A body that a file holds, too.
    pub(crate) fn stored(bytes: Bytes, file: Option<Arc<OpenFile>>) -> Self {
        Body { bytes, file }
    }

    /// Number of bytes that are still to be sent.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The file with exactly the bytes, if there is one.
    pub(crate) fn file(&self) -> Option<&Arc<OpenFile>> {
        self.file.as_ref()
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Body::stored(bytes.into(), None)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
