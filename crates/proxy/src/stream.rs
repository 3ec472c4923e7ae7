//! Streams that remember: what was read from them, and when.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection of which the beginning has been read already, or is read to
/// be read again.
pub(crate) struct Rewind<S = TcpStream> {
    stream: S,
    /// Read before, to be read first.
    before: BytesMut,
    /// While recording: everything that was read.
    record: Option<BytesMut>,
}

/// Bytes read at a time: a ClientHello with a post-quantum key has less.
const FILL: usize = 2048;

impl<S: AsyncRead + Unpin> Rewind<S> {
    /// `stream`, from which `before` has been read.
    pub(crate) fn new(before: Bytes, stream: S) -> Self {
        Rewind {
            stream,
            before: before.into(),
            record: None,
        }
    }

    /// Returns what was read, and is still to be read.
    pub(crate) fn before(&self) -> &[u8] {
        &self.before
    }

    /// Reads on without taking anything away: the number of bytes that came,
    /// 0 at the end.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// The same, in small steps.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut bytes = [0; FILL];
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        self.before.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Remembers what is read from here on.
    pub(crate) fn record(&mut self) {
        self.record = Some(BytesMut::with_capacity(FILL));
    }

    /// Puts what was recorded back.
    pub(crate) fn rewind(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.extend_from_slice(&self.before);
            self.before = record;
        }
    }

    /// Forgets what was recorded.
    pub(crate) fn forget(&mut self) {
        self.record = None;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewind<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let filled = buffer.filled().len();
        if this.before.is_empty() {
            ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        } else {
            let n = this.before.len().min(buffer.remaining());
            buffer.put_slice(&this.before[..n]);
            this.before.advance(n);
        }
        if let Some(record) = &mut this.record {
            record.extend_from_slice(&buffer.filled()[filled..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewind<S> {
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

/// A stream that tells whether anything has gone through it.
pub(crate) struct ActivityStream<S> {
    stream: S,
    active: Arc<AtomicBool>,
}

impl<S> ActivityStream<S> {
    /// The stream, and the flag that is raised whenever bytes pass.
    pub(crate) fn new(stream: S) -> (Self, Arc<AtomicBool>) {
        let active = Arc::<AtomicBool>::default();
        let watched = ActivityStream {
            stream,
            active: active.clone(),
        };
        (watched, active)
    }

    fn note(&self) {
        self.active.store(true, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ActivityStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.note();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ActivityStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_ready() {
            self.note();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
