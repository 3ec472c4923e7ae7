//! End of TLS connections with servers: a missing `close_notify`, and alerts.
//!
//! Many servers close the TCP connection without `close_notify` (RFC 8446, section 6.1). A response
//! of known length is not affected. A response that lasts until the end of the connection is
//! forwarded with a warning, because it may be truncated.
//!
//! A server that rejects the client certificate sends an alert after the handshake. hyper does not
//! report this alert to the requests of an HTTP/2 connection, so this module records the alert.
//!
//! A server can respond before it has read the body of the request, and close the connection. A
//! failed write of the body does not end the connection, because hyper would then not read the
//! response that has already arrived. The next read reports the end of the connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use lucarne_net::tls_error;
use parking_lot::Mutex;
use rustls::AlertDescription;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// State at the end of a connection. Clones share the state and are cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionEnd(Arc<Ended>);

#[derive(Debug, Default)]
struct Ended {
    received: AtomicU64,
    unannounced: AtomicBool,
    alert: Mutex<Option<AlertDescription>>,
}

impl ConnectionEnd {
    /// Returns the number of bytes that the server has sent so far.
    pub(crate) fn received(&self) -> u64 {
        self.0.received.load(Ordering::Acquire)
    }

    /// Returns whether the connection ended without `close_notify`.
    pub(crate) fn is_unannounced(&self) -> bool {
        self.0.unannounced.load(Ordering::Acquire)
    }

    /// Returns the alert with which the server ended the connection, if any.
    pub(crate) fn alert(&self) -> Option<AlertDescription> {
        *self.0.alert.lock()
    }
}

/// Stream that records an end without `close_notify`, and the alert that the server sent.
pub(crate) struct Ending<S> {
    stream: S,
    end: ConnectionEnd,
    /// Kind of the error of a failed write. Later bytes are dropped.
    unwritable: Option<io::ErrorKind>,
}

impl<S> Ending<S> {
    pub(crate) fn new(stream: S) -> (Self, ConnectionEnd) {
        let end = ConnectionEnd::default();
        let ending = Ending {
            stream,
            end: end.clone(),
            unwritable: None,
        };
        (ending, end)
    }

    /// Returns `done` instead of an error, and drops the bytes of later writes.
    fn defer<T>(&mut self, result: Poll<io::Result<T>>, done: T) -> Poll<io::Result<T>> {
        result.map(|result| {
            result.or_else(|error| {
                self.unwritable = Some(error.kind());
                Ok(done)
            })
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Ending<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let Poll::Ready(Err(error)) = read else {
            let more = buffer.filled().len() - filled;
            self.end
                .0
                .received
                .fetch_add(more as u64, Ordering::Release);
            return match self.unwritable {
                // The system reports the error of a reset connection only once, to the write.
                Some(kind) if read.is_ready() && more == 0 => Poll::Ready(Err(kind.into())),
                _ => read,
            };
        };
        // rustls reports a missing `close_notify` as this kind.
        if error.kind() == io::ErrorKind::UnexpectedEof {
            self.end.0.unannounced.store(true, Ordering::Release);
            return Poll::Ready(Ok(()));
        }
        if let Some(rustls::Error::AlertReceived(alert)) = tls_error(&error) {
            *self.end.0.alert.lock() = Some(*alert);
        }
        Poll::Ready(Err(error))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Ending<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.unwritable.is_some() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.defer(written, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = slices.iter().map(|slice| slice.len()).sum();
        if self.unwritable.is_some() {
            return Poll::Ready(Ok(all));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.defer(written, all)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unwritable.is_some() {
            return Poll::Ready(Ok(()));
        }
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.defer(flushed, ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
