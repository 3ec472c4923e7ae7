//! Interim responses to HTTP/1.1 clients (RFC 9110, section 15.2), for example 103 Early Hints.
//!
//! hyper's server writes only 100. This module writes other interim responses directly into the
//! connection, between a request and its final response, while hyper has no response in progress.
//! It also adds [words](crate::worded) to responses of hyper, and [closes](crate::lingering) the
//! connection so that the client receives the last response.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap, TRAILER};
use http::{StatusCode, Version};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::headers;
use crate::lingering::Lingering;
use crate::worded;

/// Limit of the bytes of interim responses that a client has not read yet. Further interim
/// responses are dropped, which HTTP allows.
const WAITING: usize = 64 << 10;

/// Queue of interim responses for one connection.
#[derive(Default)]
pub(crate) struct Interim(Mutex<State>);

#[derive(Default)]
struct State {
    /// Number of the request that may still receive interim responses.
    request: u64,
    waiting: BytesMut,
    /// `true` until all bytes that [`Interim::take`] has taken are written.
    writing: bool,
    writer: Option<Waker>,
    ender: Option<Waker>,
}

impl Interim {
    /// Starts the next request of the connection. A connection has one request at a time.
    pub(crate) fn begin(self: &Arc<Self>) -> InterimSender {
        let mut state = self.0.lock();
        state.request += 1;
        InterimSender {
            interim: self.clone(),
            request: state.request,
        }
    }

    /// Moves the waiting bytes to `into`. Returns whether there were any.
    fn take(&self, into: &mut BytesMut, waker: &Waker) -> bool {
        let mut state = self.0.lock();
        if !state.writer.as_ref().is_some_and(|w| w.will_wake(waker)) {
            state.writer = Some(waker.clone());
        }
        state.writing = !state.waiting.is_empty();
        if state.writing {
            *into = state.waiting.split();
        } else if let Some(ender) = state.ender.take() {
            ender.wake();
        }
        state.writing
    }
}

/// Sends interim responses to one request.
#[derive(Clone)]
pub(crate) struct InterimSender {
    interim: Arc<Interim>,
    request: u64,
}

impl InterimSender {
    /// Queues an interim response, unless the final response has started.
    pub(crate) fn say(&self, status: StatusCode, headers: &HeaderMap) {
        let bytes = encode(status, headers);
        let mut state = self.interim.0.lock();
        if state.request != self.request || state.waiting.len() + bytes.len() > WAITING {
            return;
        }
        state.waiting.extend_from_slice(&bytes);
        if let Some(writer) = state.writer.take() {
            writer.wake();
        }
    }

    /// Stops interim responses and waits until all are written. The final response may begin only
    /// after that.
    pub(crate) async fn end(&self) {
        poll_fn(|cx| {
            let mut state = self.interim.0.lock();
            if state.request == self.request {
                state.request += 1;
            }
            if state.waiting.is_empty() && !state.writing {
                return Poll::Ready(());
            }
            state.ender = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

fn encode(status: StatusCode, headers: &HeaderMap) -> Vec<u8> {
    let mut headers = headers.clone();
    headers::strip(&mut headers);
    // Interim responses have no body, so fields about a body are removed.
    headers.remove(CONTENT_LENGTH);
    headers.remove(TRAILER);
    let reason = status.canonical_reason().unwrap_or_default();
    let mut bytes = format!("{:?} {} {reason}\r\n", Version::HTTP_11, status.as_str()).into_bytes();
    headers::write(&headers, &mut bytes);
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// A client's connection into which interim responses are written.
pub(crate) struct InterimStream<S> {
    stream: S,
    interim: Arc<Interim>,
    /// Bytes of interim responses that are written before anything else.
    writing: BytesMut,
    /// Size limit of a request's head in bytes.
    head_bytes: usize,
    /// Exists from the end of the sending side on.
    lingering: Option<Lingering>,
}

impl<S> InterimStream<S> {
    pub(crate) fn new(stream: S, head_bytes: usize) -> (Self, Arc<Interim>) {
        let interim = Arc::<Interim>::default();
        let interjected = InterimStream {
            stream,
            interim: interim.clone(),
            writing: BytesMut::new(),
            head_bytes,
            lingering: None,
        };
        (interjected, interim)
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncWrite + Unpin> InterimStream<S> {
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.writing.is_empty() {
            let n = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.writing))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.writing.advance(n);
        }
        Poll::Ready(Ok(()))
    }

    /// Replaces a response of hyper that has no words. Returns whether `bytes` is one.
    fn replace(&mut self, bytes: &[u8]) -> bool {
        let worded = worded::in_place_of(bytes, self.head_bytes);
        if let Some(worded) = &worded {
            self.writing.extend_from_slice(worded.as_bytes());
        }
        worded.is_some()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for InterimStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for InterimStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_written(cx))?;
        if self.replace(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_written(cx))?;
        if let [only] = slices
            && self.replace(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Writes waiting interim responses before the flush. hyper flushes after it has written all
    /// its bytes. If interim responses wait at that time, no final response is in progress, because
    /// a final response begins only after [`InterimSender::end`].
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            ready!(this.poll_written(cx))?;
            if !this.interim.take(&mut this.writing, cx.waker()) {
                return Pin::new(&mut this.stream).poll_flush(cx);
            }
        }
    }

    /// Closes the sending side, and waits until the client closes its side too.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            ready!(this.poll_written(cx))?;
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        let lingering = this.lingering.get_or_insert_with(Lingering::new);
        lingering.poll(&mut this.stream, cx).map(Ok)
    }
}
