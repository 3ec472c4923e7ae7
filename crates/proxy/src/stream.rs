//! Streams that replay their first bytes, or count their bytes.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::records::Tap;

/// A connection whose first bytes can be read again.
pub(crate) struct Rewind<S = TcpStream> {
    stream: S,
    /// Bytes that were read already and are returned first.
    before: BytesMut,
    /// All bytes read while recording.
    record: Option<BytesMut>,
}

/// Buffer size in bytes: a ClientHello with a post-quantum key is smaller.
const FILL: usize = 2048;

impl<S: AsyncRead + Unpin> Rewind<S> {
    /// Wraps `stream`. The bytes `before` were already read from it.
    pub(crate) fn new(before: Bytes, stream: S) -> Self {
        Rewind {
            stream,
            before: before.into(),
            record: None,
        }
    }

    /// Returns the bytes that are buffered for the next read.
    pub(crate) fn before(&self) -> &[u8] {
        &self.before
    }

    /// Reads more bytes into the buffer without consuming any. Returns their number, or 0 at the
    /// end.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// Polls the stream for more bytes, see [`Self::fill`].
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut bytes = [0; FILL];
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        self.before.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Returns whether the peer has closed the stream or its sending side. Does not wait. Bytes
    /// that arrived are buffered for the next read.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let filled = poll_fn(|cx| Poll::Ready(self.poll_fill(cx))).await;
        matches!(filled, Poll::Ready(Ok(0) | Err(_)))
    }

    /// Records all bytes that are read from now on.
    pub(crate) fn record(&mut self) {
        self.record = Some(BytesMut::with_capacity(FILL));
    }

    /// Returns the recorded bytes to the buffer.
    pub(crate) fn rewind(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.extend_from_slice(&self.before);
            self.before = record;
        }
    }

    /// Stops recording and drops the recorded bytes.
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

/// Stream that counts the bytes in each direction.
pub(crate) struct CountedStream<S> {
    pub(crate) stream: S,
    /// Bytes that were read.
    pub(crate) read: Arc<Tap>,
    /// Bytes that were written.
    pub(crate) written: Arc<Tap>,
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.read.count(buffer.filled().len() - filled);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(bytes)) = written {
            self.written.count(bytes);
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

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_closed_connection_is_noticed_and_its_bytes_are_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = Rewind::new(Bytes::new(), stream);
        assert!(!stream.is_closed().await);
        client.write_all(b"early").await.unwrap();
        lucarne_testkit::eventually("the bytes arrive", async || {
            assert!(!stream.is_closed().await);
            stream.before() == b"early"
        })
        .await;
        drop(client);
        lucarne_testkit::eventually("the end arrives", async || stream.is_closed().await).await;
        assert_eq!(stream.before(), b"early");
    }
}
