//! Large answers leave by `sendfile(2)`.
//!
//! To copy a full data tile into the kernel costs as much as the rest of the
//! request, and the kernel has those bytes already: the tile is a file. But
//! hyper writes slices of memory. So the service leaves bytes and file in the
//! connection's [`Outbox`], hyper gets the bytes as ever, and when it comes to
//! write them, [`Courier`] knows them by where they lie, and has the kernel send
//! that part of the file in their place.
//!
//! Nothing depends on it. A slice that is not known is written as it is, and
//! so is the rest of one if the kernel cannot send the file, or if the file has
//! become shorter. That it says the same as the bytes is for whoever puts it in.

use std::fs::File;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// The body of the answer that is about to be written, if it is a file.
#[derive(Default)]
pub(crate) struct Outbox(Mutex<Option<Parcel>>);

struct Parcel {
    /// Held for as long as an address is compared with theirs: nothing else can
    /// lie there.
    bytes: Bytes,
    file: Arc<File>,
}

impl Outbox {
    /// Says what the next answer consists of: `file`, if it is one, says from
    /// its first byte what `bytes` does.
    pub(crate) fn put(&self, bytes: &Bytes, file: Option<&Arc<File>>) {
        *self.0.lock() = file.map(|file| Parcel {
            bytes: bytes.clone(),
            file: file.clone(),
        });
    }

    /// Where in the file the slice lies.
    fn find(&self, slice: &[u8]) -> Option<(Arc<File>, u64)> {
        let parcel = self.0.lock();
        let parcel = parcel.as_ref()?;
        let offset = slice
            .as_ptr()
            .addr()
            .checked_sub(parcel.bytes.as_ptr().addr())?;
        let is_inside = !slice.is_empty() && offset + slice.len() <= parcel.bytes.len();
        is_inside.then(|| (parcel.file.clone(), offset as u64))
    }
}

/// A connection without TLS, where the kernel can send files.
pub(crate) struct Courier {
    pub(crate) tcp: TcpStream,
    pub(crate) outbox: Arc<Outbox>,
}

impl Courier {
    /// Sends from the file if the first slice is of it, and if a later one is,
    /// no more than the first: the next call is then about what follows.
    fn poll_send(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<Option<usize>> {
        let Some((first, later)) = bufs.split_first() else {
            return Poll::Ready(None);
        };
        let sent = match self.outbox.find(first) {
            Some((file, offset)) => ready!(poll_io(&self.tcp, cx, || {
                kernel::send_file(&self.tcp, &file, offset, first.len())
            })),
            None if later.iter().any(|slice| self.outbox.find(slice).is_some()) => {
                ready!(poll_io(&self.tcp, cx, || kernel::send_head(
                    &self.tcp, first
                )))
            }
            None => return Poll::Ready(None),
        };
        // Nothing sent: the file has been cut. What is wrong with the
        // connection, if anything, writing will say.
        let sent = sent.ok().filter(|sent| *sent > 0);
        if sent.is_none() {
            self.outbox.0.lock().take();
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
    use std::{fs::File, io};

    use rustix::net::SendFlags;
    use tokio::net::TcpStream;

    pub(super) fn send_file(
        tcp: &TcpStream,
        file: &File,
        mut offset: u64,
        length: usize,
    ) -> io::Result<usize> {
        Ok(rustix::fs::sendfile(tcp, file, Some(&mut offset), length)?)
    }

    /// Sends what a file follows, in the same packet.
    pub(super) fn send_head(tcp: &TcpStream, head: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(tcp, head, flags)?)
    }
}

/// Other systems write the bytes.
#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::{fs::File, io};

    use tokio::net::TcpStream;

    pub(super) fn send_file(_: &TcpStream, _: &File, _: u64, _: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn send_head(_: &TcpStream, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl AsyncRead for Courier {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Courier {
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
    use std::io::Write;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Both ends of a connection.
    async fn connected() -> (Courier, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (tcp, _) = listener.accept().await.unwrap();
        let outbox = Arc::default();
        (Courier { tcp, outbox }, there)
    }

    fn file(bytes: &[u8]) -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Arc::new(file)
    }

    /// Writes all of it as hyper does, and returns what arrives.
    async fn written(mut courier: Courier, mut there: TcpStream, parts: &[Bytes]) -> Vec<u8> {
        let reading = tokio::spawn(async move {
            let mut arrived = Vec::new();
            there.read_to_end(&mut arrived).await.unwrap();
            arrived
        });
        let mut parts = parts.to_vec();
        while !parts.is_empty() {
            let bufs: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut wrote = courier.write_vectored(&bufs).await.unwrap();
            parts.retain_mut(|part| {
                let gone = wrote.min(part.len());
                wrote -= gone;
                bytes::Buf::advance(part, gone);
                !part.is_empty()
            });
        }
        courier.shutdown().await.unwrap();
        reading.await.unwrap()
    }

    /// A megabyte is more than a socket takes at once.
    fn large() -> Bytes {
        (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect()
    }

    #[tokio::test]
    async fn a_body_is_sent_from_its_file() {
        let (courier, there) = connected().await;
        let body = large();
        // Told apart here, and only here, by what it says.
        let told: Vec<u8> = body.iter().map(|byte| !byte).collect();
        courier.outbox.put(&body, Some(&file(&told)));
        let parts = [Bytes::from("head"), body, Bytes::from("next")];
        let arrived = written(courier, there, &parts).await;
        assert!(arrived == [&b"head"[..], &told, b"next"].concat());
    }

    #[tokio::test]
    async fn what_a_file_has_lost_is_written() {
        let (courier, there) = connected().await;
        let body = large();
        courier.outbox.put(&body, Some(&file(&body[..100_000])));
        let arrived = written(courier, there, &[Bytes::from("head"), body.clone()]).await;
        assert!(arrived == [b"head", &body[..]].concat());
    }

    #[tokio::test]
    async fn what_cannot_be_sent_is_written() {
        let (courier, there) = connected().await;
        let body = large();
        let (_, pipe) = std::io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        courier.outbox.put(&body, Some(&Arc::new(pipe)));
        let arrived = written(courier, there, std::slice::from_ref(&body)).await;
        assert!(arrived == body);
    }

    #[tokio::test]
    async fn other_bytes_are_written() {
        let (courier, there) = connected().await;
        courier.outbox.put(&large(), Some(&file(b"another")));
        let body = large();
        let arrived = written(courier, there, std::slice::from_ref(&body)).await;
        assert!(arrived == body);
    }
}
