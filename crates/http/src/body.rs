//! The only type of response body: empty, bytes of known size, or a feed.

use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream};
use http_body::{Frame, SizeHint};
use lucarne_log::OpenFile;

/// A body that is complete in memory, except for a feed.
///
/// Every response except a feed is a slice of memory before it is sent, so one concrete type is
/// enough: no boxing, no dynamic dispatch, and hyper knows the exact length and writes
/// `Content-Length` itself.
#[derive(Debug, Default)]
pub(crate) struct Body {
    bytes: Bytes,
    file: Option<Arc<OpenFile>>,
    /// The stream of a feed.
    streamed: Option<Box<Streamed>>,
}

/// A body that is produced over time.
struct Streamed {
    stream: BoxStream<'static, Bytes>,
    /// A value that is dropped together with the stream.
    _held: Option<Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streamed").finish_non_exhaustive()
    }
}

impl Body {
    /// Creates a body whose bytes are also in a file.
    pub(crate) fn stored(bytes: Bytes, file: Option<Arc<OpenFile>>) -> Self {
        Body {
            bytes,
            file,
            streamed: None,
        }
    }

    /// Creates a body that is produced over time.
    pub(crate) fn streamed(stream: BoxStream<'static, Bytes>) -> Self {
        Body {
            streamed: Some(Box::new(Streamed {
                stream,
                _held: None,
            })),
            ..Body::default()
        }
    }

    /// Keeps a value until a streamed body ends. Drops the value at once for other bodies.
    pub(crate) fn hold(&mut self, held: impl Any + Send + Sync) {
        if let Some(streamed) = &mut self.streamed {
            streamed._held = Some(Box::new(held));
        }
    }

    /// Returns the number of bytes that remain to be sent; 0 for a streamed body.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the file with exactly these bytes, if any.
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
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(streamed) = &mut self.streamed {
            let next = Pin::new(&mut streamed.stream).poll_next(cx);
            return next.map(|bytes| Some(Ok(Frame::data(bytes?))));
        }
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.streamed.is_none() && self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match self.streamed {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.bytes.len() as u64),
        }
    }
}
