//! Messages of a hand-over: one line of JSON each, some with sockets.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::RESPONSE_TIMEOUT;

/// Maximum size of a message in bytes, enough for a thousand logs.
const LONGEST: usize = 1 << 20;

/// Maximum number of sockets in a message.
pub(super) const MAX_SOCKETS: usize = 64;

/// Message of either side.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// The next process describes its lock and logs.
    Hello(Hello),
    /// The running process refuses; contains the reason.
    Refused(String),
    /// The running process offers its sockets.
    Offer(Offer),
    /// The next process has passed all checks.
    Ready,
    /// The next process may accept connections.
    Accept,
    /// The next process may open the logs.
    Yours,
    /// The running process keeps sockets and logs; contains the reason.
    Withdrawn(String),
    /// All logs are open in the next process.
    Leading,
    /// The next process has closed everything; contains the reason.
    Failed(String),
}

/// First message.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Version of the protocol.
    pub(super) protocol: u32,
    /// Version of the software.
    pub(super) version: String,
    /// Place of the lock.
    pub(super) lock: String,
    /// Existing logs.
    pub(super) logs: Vec<LogPlace>,
}

/// A log and the place of its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LogPlace {
    /// Short name, for messages.
    pub(super) name: String,
    /// Log ID, in base64.
    pub(super) id: String,
    /// Place of the data.
    pub(super) data: String,
}

/// Response to [`Hello`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Offer {
    /// Version of the software.
    pub(super) version: String,
    /// Texts of the sockets, in the order of the sockets.
    pub(super) sockets: Vec<String>,
    /// IDs of the logs that accept submissions now.
    pub(super) running: Vec<String>,
}

/// Endpoint of the connection between the processes.
pub(super) struct Wire {
    stream: UnixStream,
    received: Vec<u8>,
    /// Received sockets that are not taken yet.
    sockets: VecDeque<OwnedFd>,
}

impl Wire {
    pub(super) fn new(stream: UnixStream) -> Self {
        Wire {
            stream,
            received: Vec::new(),
            sockets: VecDeque::new(),
        }
    }

    pub(super) async fn connect(path: &Path) -> io::Result<Self> {
        Ok(Wire::new(UnixStream::connect(path).await?))
    }

    /// Returns the user and the process ID of the other side, from the kernel.
    pub(super) fn peer(&self) -> io::Result<(u32, i32)> {
        let peer = self.stream.peer_cred()?;
        Ok((peer.uid(), peer.pid().unwrap_or_default()))
    }

    pub(super) async fn send(&self, message: &Message) -> Result<()> {
        self.send_with(message, &[]).await
    }

    /// Sends a message with sockets.
    pub(super) async fn send_with(&self, message: &Message, sockets: &[OwnedFd]) -> Result<()> {
        ensure!(
            sockets.len() <= MAX_SOCKETS,
            "cannot hand over {} sockets: the maximum is {MAX_SOCKETS}",
            sockets.len()
        );
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        ensure!(
            line.len() <= LONGEST,
            "cannot send a message of {} bytes: the maximum is {LONGEST}",
            line.len()
        );
        let (mut rest, mut sockets) = (&line[..], sockets);
        while !rest.is_empty() {
            let sent = self.stream.async_io(Interest::WRITABLE, || {
                send_some(&self.stream, rest, sockets)
            });
            rest = &rest[sent.await?..];
            sockets = &[];
        }
        Ok(())
    }

    /// Returns the next message; `None` if the other side has ended. Cancel safe.
    pub(super) async fn receive(&mut self) -> Result<Option<Message>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                let message = serde_json::from_slice(&line);
                return message
                    .map(Some)
                    .context("the other process uses another version of the hand-over");
            }
            ensure!(
                self.received.len() <= LONGEST,
                "the message of the other process has no end within {LONGEST} bytes"
            );
            let mut chunk = vec![0; 16 << 10];
            let reading = self.stream.async_io(Interest::READABLE, || {
                receive_some(&self.stream, &mut chunk)
            });
            match reading.await {
                Ok((0, _)) => return Ok(None),
                Ok((bytes, sockets)) => {
                    self.received.extend_from_slice(&chunk[..bytes]);
                    self.sockets.extend(sockets);
                }
                // The other process died with unread data.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the sockets received so far.
    pub(super) fn take_sockets(&mut self) -> Vec<OwnedFd> {
        self.sockets.drain(..).collect()
    }

    /// Sends a withdrawal, and waits until the other process has ended, because the other process
    /// may have opened logs.
    pub(super) async fn withdraw(&mut self, why: String) {
        let _ = timeout(RESPONSE_TIMEOUT, self.send(&Message::Withdrawn(why))).await;
        let ended = async { while let Ok(Some(_)) = self.receive().await {} };
        if timeout(RESPONSE_TIMEOUT, ended).await.is_err() {
            tracing::error!("the other process does not end: stop it");
        }
    }
}

fn send_some(stream: &UnixStream, bytes: &[u8], sockets: &[OwnedFd]) -> io::Result<usize> {
    let borrowed: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_SOCKETS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(sendmsg(
        stream,
        &[IoSlice::new(bytes)],
        &mut control,
        flags,
    )?)
}

fn receive_some(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_SOCKETS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let mut sockets = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            sockets.extend(rights);
        }
    }
    Ok((received.bytes, sockets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_arrive_whole_and_sockets_with_them() {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, mut other) = (Wire::new(one), Wire::new(other));
        let long = Message::Refused("x".repeat(200_000));
        let offer = Message::Offer(Offer {
            version: "1".into(),
            sockets: vec![":1".into()],
            running: Vec::new(),
        });
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let sending = async {
            one.send(&long).await.unwrap();
            one.send_with(&offer, &[socket.into()]).await.unwrap();
            one.send(&Message::Ready).await.unwrap();
        };
        let receiving = async {
            assert_eq!(other.receive().await.unwrap(), Some(long_again()));
            assert!(matches!(
                other.receive().await.unwrap(),
                Some(Message::Offer(_))
            ));
            let mut sockets = other.take_sockets();
            let socket = std::net::TcpListener::from(sockets.remove(0));
            assert_eq!(socket.local_addr().unwrap(), address);
            assert_eq!(other.receive().await.unwrap(), Some(Message::Ready));
        };
        tokio::join!(sending, receiving);
        drop(one);
        assert_eq!(other.receive().await.unwrap(), None);
    }

    fn long_again() -> Message {
        Message::Refused("x".repeat(200_000))
    }

    #[tokio::test]
    async fn what_is_no_message_is_another_version() {
        for wrong in [&b"{\"surrender\":1}\n"[..], b"\n", b"\xff\n"] {
            let (one, other) = UnixStream::pair().unwrap();
            one.writable().await.unwrap();
            one.try_write(wrong).unwrap();
            let error = Wire::new(other).receive().await.unwrap_err();
            assert!(error.to_string().contains("another version"), "{error}");
        }
        let (one, other) = UnixStream::pair().unwrap();
        let endless = tokio::spawn(async move {
            while one.writable().await.is_ok() {
                if one
                    .try_write(&[b' '; 4096])
                    .is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock)
                {
                    return;
                }
            }
        });
        let error = Wire::new(other).receive().await.unwrap_err();
        assert!(error.to_string().contains("has no end within"), "{error}");
        endless.await.unwrap();
    }
}
