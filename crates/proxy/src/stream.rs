//! Streams that remember: what was read from them, and when.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection of which the beginning has been read already, or is read to
/// be read again.
pub(crate) struct Rewind {
    tcp: TcpStream,
    /// Read before, to be read first.
    before: Bytes,
    /// While recording: everything that was read.
    record: Option<Vec<u8>>,
}

impl Rewind {
    /// `tcp`, from which `before` has been read.
    pub(crate) fn new(before: Bytes, tcp: TcpStream) -> Self {
        Rewind {
            tcp,
            before,
            record: None,
        }
    }

    /// The first byte, which stays where it is; `None` at the end.
    pub(crate) async fn first(&self) -> io::Result<Option<u8>> {
        if let Some(first) = self.before.first() {
            return Ok(Some(*first));
        }
        let mut first = [0];
        let n = self.tcp.peek(&mut first).await?;
        Ok((n > 0).then_some(first[0]))
    }

    /// Remembers what is read from here on.
    pub(crate) fn record(&mut self) {
        self.record = Some(Vec::with_capacity(1024));
    }

    /// Puts what was recorded back.
    pub(crate) fn rewind(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.extend_from_slice(&self.before);
            self.before = record.into();
        }
    }

    /// Forgets what was recorded.
    pub(crate) fn forget(&mut self) {
        self.record = None;
    }
}

impl AsyncRead for Rewind {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let filled = buffer.filled().len();
        if this.before.is_empty() {
            std::task::ready!(Pin::new(&mut this.tcp).poll_read(cx, buffer))?;
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

impl AsyncWrite for Rewind {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

/// A stream that tells whether anything has gone through it.
pub(crate) struct Stirring<S> {
    stream: S,
    stirred: Arc<AtomicBool>,
}

impl<S> Stirring<S> {
    /// The stream, and the flag that is raised whenever bytes pass.
    pub(crate) fn new(stream: S) -> (Self, Arc<AtomicBool>) {
        let stirred = Arc::<AtomicBool>::default();
        let watched = Stirring {
            stream,
            stirred: stirred.clone(),
        };
        (watched, stirred)
    }

    fn stir(&self) {
        self.stirred.store(true, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stirring<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.stir();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stirring<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_ready() {
            self.stir();
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
