//! How TLS connections with servers end.
//!
//! Many servers close the TCP connection without `close_notify` (RFC 8446, section 6.1). A response
//! that says where it ends is not affected. One that lasts until the connection ends is passed on,
//! with a warning: it may have been cut off on the way.
//!
//! A server that does not like the certificate that it was shown says so by an alert, after the
//! handshake. HTTP/2 does not tell its requests of which alert the connection ended.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use lucarne_net::tls_error;
use parking_lot::Mutex;
use rustls::AlertDescription;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How a connection has ended. Cheap to clone: all are of the same connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionEnd(Arc<Ended>);

#[derive(Debug, Default)]
struct Ended {
    unannounced: AtomicBool,
    alert: Mutex<Option<AlertDescription>>,
}

impl ConnectionEnd {
    /// Returns whether it has ended without `close_notify`.
    pub(crate) fn is_unannounced(&self) -> bool {
        self.0.unannounced.load(Ordering::Acquire)
    }

    /// The alert by which the server has ended it.
    pub(crate) fn alert(&self) -> Option<AlertDescription> {
        *self.0.alert.lock()
    }
}

/// A connection whose end counts as one, announced or not.
pub(crate) struct Ending<S> {
    stream: S,
    end: ConnectionEnd,
}

impl<S> Ending<S> {
    pub(crate) fn new(stream: S) -> (Self, ConnectionEnd) {
        let end = ConnectionEnd::default();
        let ending = Ending {
            stream,
            end: end.clone(),
        };
        (ending, end)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Ending<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let Poll::Ready(Err(error)) = read else {
            return read;
        };
        // The kind by which rustls reports it.
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
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
