//! Large responses are sent by `sendfile(2)`.
//!
//! Copying a full data tile into the kernel costs as much as the rest of the request, although the
//! kernel already has the bytes in its page cache. hyper writes slices of memory, however. The
//! service therefore stores bytes and file in the connection's [`QueuedResponse`], and gives hyper
//! the bytes as usual. When hyper writes the bytes, [`SendfileStream`] recognises them by their
//! address, and lets the kernel send that part of the file instead.
//!
//! Correctness does not depend on the file. The connection writes the bytes of an unknown slice. It
//! also writes the bytes of the rest of a slice if the kernel cannot send the file, or if the file
//! has become shorter or was written to since its bytes were read. A disk that later returns other
//! bytes for the same file cannot be detected: the bytes were correct when the log read them, and
//! the kernel sends the bytes that the disk has now.
//!
//! Pages that the kernel has dropped since the file was read are read again by the sending thread,
//! like in any server that sends files.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use lucarne_log::OpenFile;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// The body of the next response, if it is a file.
#[derive(Default)]
pub(crate) struct QueuedResponse(Mutex<Option<FileBody>>);

struct FileBody {
    /// Keeps the bytes in memory, so that no other data can have their address.
    bytes: Bytes,
    file: Arc<OpenFile>,
}

impl FileBody {
    /// Returns the offset of the slice in the file.
    fn offset(&self, slice: &[u8]) -> Option<usize> {
        let (slice_at, bytes_at) = (slice.as_ptr().addr(), self.bytes.as_ptr().addr());
        let offset = slice_at.checked_sub(bytes_at)?;
        let is_inside = !slice.is_empty() && offset + slice.len() <= self.bytes.len();
        is_inside.then_some(offset)
    }
}

/// The next action for slices that are to be written.
enum NextWrite {
    /// Send the file from this offset: the first slice belongs to the file.
    Send(Arc<OpenFile>, usize),
    /// Write the first slice: a later slice belongs to the file.
    Precede,
    /// Write all slices: none belongs to the file.
    Write,
}

impl QueuedResponse {
    /// Records the content of the next response. `file` has the same bytes as `bytes`, from its
    /// start. A file that was written to since the bytes were read is not used.
    pub(crate) fn put(&self, bytes: &Bytes, file: Option<&Arc<OpenFile>>) {
        let file = file.filter(|file| file.is_unchanged());
        *self.0.lock() = file.map(|file| FileBody {
            bytes: bytes.clone(),
            file: file.clone(),
        });
    }

    fn next(&self, bufs: &[IoSlice<'_>]) -> NextWrite {
        let body = self.0.lock();
        let Some(body) = body.as_ref() else {
            return NextWrite::Write;
        };
        let mut offsets = bufs.iter().map(|slice| body.offset(slice));
        match offsets.next().flatten() {
            Some(offset) => NextWrite::Send(body.file.clone(), offset),
            None if offsets.any(|offset| offset.is_some()) => NextWrite::Precede,
            None => NextWrite::Write,
        }
    }

    /// Records that the file was sent up to the offset `end`. Releases the file if all bytes were
    /// sent.
    fn sent(&self, end: usize) {
        let mut body = self.0.lock();
        body.take_if(|body| end >= body.bytes.len());
    }
}

/// A connection without TLS, on which the kernel can send files.
pub(crate) struct SendfileStream {
    pub(crate) tcp: TcpStream,
    pub(crate) queued: Arc<QueuedResponse>,
}

impl SendfileStream {
    /// Sends from the file if the first slice belongs to the file. If a later slice belongs to the
    /// file, sends only the first slice: the next call handles the rest.
    fn poll_send(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<Option<usize>> {
        let sent = match self.queued.next(bufs) {
            NextWrite::Send(file, offset) => {
                let length = bufs[0].len();
                let sent = ready!(poll_io(&self.tcp, cx, || {
                    kernel::send_file(&self.tcp, &file, offset as u64, length)
                }));
                sent.inspect(|sent| self.queued.sent(offset + sent))
            }
            NextWrite::Precede => ready!(poll_io(&self.tcp, cx, || {
                kernel::send_head(&self.tcp, &bufs[0])
            })),
            NextWrite::Write => return Poll::Ready(None),
        };
        // If nothing was sent, the file was truncated or cannot be sent, and its bytes are written
        // instead. The write will also report a broken connection.
        let sent = sent.ok().filter(|sent| *sent > 0);
        if sent.is_none() {
            self.queued.0.lock().take();
        }
        Poll::Ready(sent)
    }
}

fn poll_io(
    tcp: &TcpStream,
    cx: &mut Context<'_>,
    mut io: impl FnMut() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(tcp.poll_write_ready(cx))?;
        match tcp.try_io(Interest::WRITABLE, &mut io) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return Poll::Ready(outcome),
        }
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::io;

    use lucarne_log::OpenFile;
    use rustix::net::SendFlags;
    use tokio::net::TcpStream;

    /// `sendfile` has no flag against SIGPIPE, but the standard library makes this process ignore
    /// the signal.
    pub(super) fn send_file(
        tcp: &TcpStream,
        file: &OpenFile,
        mut offset: u64,
        length: usize,
    ) -> io::Result<usize> {
        Ok(rustix::fs::sendfile(tcp, file, Some(&mut offset), length)?)
    }

    /// Sends the bytes before a file, in the same packet.
    pub(super) fn send_head(tcp: &TcpStream, head: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(tcp, head, flags)?)
    }
}

/// Other systems write the bytes.
#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::io;

    use lucarne_log::OpenFile;
    use tokio::net::TcpStream;

    pub(super) fn send_file(_: &TcpStream, _: &OpenFile, _: u64, _: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn send_head(_: &TcpStream, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl AsyncRead for SendfileStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for SendfileStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match ready!(self.poll_send(cx, bufs)) {
            Some(sent) => Poll::Ready(Ok(sent)),
            None => Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Returns both ends of a connection.
    async fn connected() -> (SendfileStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (tcp, _) = listener.accept().await.unwrap();
        let queued = Arc::default();
        (SendfileStream { tcp, queued }, there)
    }

    fn file(bytes: &[u8]) -> Arc<OpenFile> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Arc::new(OpenFile::keep(file).unwrap())
    }

    /// Writes all parts like hyper, and returns the received bytes.
    async fn written(mut stream: SendfileStream, mut there: TcpStream, parts: &[Bytes]) -> Vec<u8> {
        let reading = tokio::spawn(async move {
            let mut arrived = Vec::new();
            there.read_to_end(&mut arrived).await.unwrap();
            arrived
        });
        let mut parts = parts.to_vec();
        while !parts.is_empty() {
            let bufs: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut wrote = stream.write_vectored(&bufs).await.unwrap();
            parts.retain_mut(|part| {
                let gone = wrote.min(part.len());
                wrote -= gone;
                bytes::Buf::advance(part, gone);
                !part.is_empty()
            });
        }
        stream.shutdown().await.unwrap();
        reading.await.unwrap()
    }

    /// Returns a megabyte, which is more than a socket accepts at once.
    fn large() -> Bytes {
        (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect()
    }

    #[tokio::test]
    async fn a_body_is_sent_from_its_file() {
        let (stream, there) = connected().await;
        let body = large();
        // In this test the file has different bytes, to show which source was sent.
        let other: Vec<u8> = body.iter().map(|byte| !byte).collect();
        stream.queued.put(&body, Some(&file(&other)));
        let parts = [Bytes::from("head"), body, Bytes::from("next")];
        let arrived = written(stream, there, &parts).await;
        assert!(arrived == [&b"head"[..], &other, b"next"].concat());
    }

    #[tokio::test]
    async fn what_a_file_has_lost_is_written() {
        let (stream, there) = connected().await;
        let body = large();
        stream.queued.put(&body, Some(&file(&body[..100_000])));
        let arrived = written(stream, there, &[Bytes::from("head"), body.clone()]).await;
        assert!(arrived == [b"head", &body[..]].concat());
    }

    #[tokio::test]
    async fn what_cannot_be_sent_is_written() {
        let (stream, there) = connected().await;
        let body = large();
        let (_, pipe) = std::io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        let pipe = Arc::new(OpenFile::keep(pipe).unwrap());
        stream.queued.put(&body, Some(&pipe));
        let arrived = written(stream, there, std::slice::from_ref(&body)).await;
        assert!(arrived == body);
    }

    #[tokio::test]
    async fn other_bytes_are_written() {
        let (stream, there) = connected().await;
        stream.queued.put(&large(), Some(&file(b"another")));
        let body = large();
        let arrived = written(stream, there, std::slice::from_ref(&body)).await;
        assert!(arrived == body);
    }
}
