//! An authenticated connection between a leader and an agent.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ConnectionCommon, ServerConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::key::{Exported, Key, Role};
use super::message::Hello;

/// Usual time without a sign of life after which the other side is lost.
pub(super) const SILENCE: Duration = Duration::from_secs(5);
/// Interval of the frames that only show that this side is alive.
const ALIVE: Duration = Duration::from_secs(1);
/// Largest frame.
pub(super) const LARGEST: usize = 64 << 20;
/// Largest frame of a side that has not proven that it has the key.
const LARGEST_HELLO: usize = 4096;
/// Part of a frame that must arrive, or leave, within the time of a silence.
const CHUNK: usize = 64 << 10;
/// Label of the bytes that TLS exports for the proofs.
const LABEL: &[u8] = b"EXPORTER-lucarne-load-agents";

/// Reasons why a connection cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    #[error("its version is {theirs}, and the version here is {mine}: use the same version")]
    Version { mine: String, theirs: String },
    #[error("it has another key: use the same --key on all machines")]
    Key,
    #[error("a frame has {0} bytes, expected at most {1}")]
    TooLong(usize, usize),
    #[error("a frame is not a known message: {0}")]
    Message(#[from] serde_json::Error),
    #[error("there was no sign of life for {0:?}")]
    Silent(Duration),
    #[error("the connection ended")]
    Closed,
}

/// This side of a connection before it is authenticated.
#[derive(Clone)]
pub(super) struct Side {
    pub(super) key: Key,
    pub(super) version: String,
    /// Time without a sign of life after which the other side of a connection is lost.
    pub(super) silence: Duration,
}

/// A connection that sends `Out` and receives `In`.
pub(super) struct Link<Out, In> {
    out: mpsc::Sender<Vec<u8>>,
    incoming: mpsc::Receiver<Result<In, LinkError>>,
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
    _sends: PhantomData<fn(Out)>,
}

/// Difference of the leader's clock to the clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// Nanoseconds to add to the time of this machine.
    ahead: i128,
    /// Largest error of `ahead`.
    error: i128,
}

impl Clock {
    fn measured(before: SystemTime, leader: u64, after: SystemTime) -> Self {
        let (before, after) = (i128::from(nanos(before)), i128::from(nanos(after)));
        Clock {
            ahead: i128::from(leader) - (before + after) / 2,
            error: (after - before) / 2,
        }
    }

    /// Returns the time of this machine at a time of the leader.
    pub(super) fn here(self, leader: u64) -> SystemTime {
        let here = u64::try_from(i128::from(leader) - self.ahead).unwrap_or(0);
        UNIX_EPOCH + Duration::from_nanos(here)
    }

    /// Returns the part of the difference that is certain, in milliseconds.
    pub(super) fn difference(self) -> i64 {
        let certain = (self.ahead.abs() - self.error).max(0) * self.ahead.signum();
        i64::try_from(certain / 1_000_000).unwrap_or(0)
    }
}

/// Returns the nanoseconds since 1970.
pub(super) fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Side {
    /// Authenticates both sides of a new connection to the leader.
    pub(super) async fn connect<Out: Serialize, In: DeserializeOwned + Send + 'static>(
        &self,
        stream: TcpStream,
        tls: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<(Link<Out, In>, Clock), LinkError> {
        let connecting = TlsConnector::from(tls).connect(name, stream);
        let stream = Self::in_time(connecting).await?.map_err(LinkError::Tls)?;
        let exported = exported(stream.get_ref().1)?;
        let mut stream = TlsStream::from(stream);
        let before = SystemTime::now();
        let proof = self.key.proof(Role::Agent, &exported);
        self.greet(&mut stream, Some(proof)).await?;
        let hello = self.read_hello(&mut stream).await?;
        self.check_version(&hello)?;
        match hello.proof {
            Some(proof) if self.key.accepts(Role::Leader, &exported, &proof) => {}
            _ => return Err(LinkError::Key),
        }
        let clock = Clock::measured(before, hello.now, SystemTime::now());
        Ok((Link::new(stream, self.silence), clock))
    }

    /// Authenticates both sides of a new connection of an agent.
    pub(super) async fn accept<Out: Serialize, In: DeserializeOwned + Send + 'static>(
        &self,
        stream: TcpStream,
        tls: Arc<ServerConfig>,
    ) -> Result<Link<Out, In>, LinkError> {
        let accepting = TlsAcceptor::from(tls).accept(stream);
        let stream = Self::in_time(accepting).await?.map_err(LinkError::Tls)?;
        let exported = exported(stream.get_ref().1)?;
        let mut stream = TlsStream::from(stream);
        let hello = self.read_hello(&mut stream).await?;
        let proof = hello.proof.as_deref().unwrap_or_default();
        let checked = self.check_version(&hello).and_then(|()| {
            let known = self.key.accepts(Role::Agent, &exported, proof);
            known.then_some(()).ok_or(LinkError::Key)
        });
        let proof = checked
            .is_ok()
            .then(|| self.key.proof(Role::Leader, &exported));
        self.greet(&mut stream, proof).await?;
        checked?;
        Ok(Link::new(stream, self.silence))
    }

    fn check_version(&self, hello: &Hello) -> Result<(), LinkError> {
        if hello.version == self.version {
            return Ok(());
        }
        Err(LinkError::Version {
            mine: self.version.clone(),
            theirs: lucarne_net::printable(&hello.version),
        })
    }

    async fn greet(
        &self,
        stream: &mut TlsStream<TcpStream>,
        proof: Option<String>,
    ) -> Result<(), LinkError> {
        let hello = serde_json::to_vec(&Hello {
            version: self.version.clone(),
            proof,
            now: nanos(SystemTime::now()),
        })?;
        write_frame(stream, &hello).await?;
        Ok(())
    }

    async fn read_hello(&self, stream: &mut TlsStream<TcpStream>) -> Result<Hello, LinkError> {
        let frame = read_frame(stream, LARGEST_HELLO, SILENCE).await?;
        Ok(serde_json::from_slice(&frame)?)
    }

    async fn in_time<T>(future: impl Future<Output = T>) -> Result<T, LinkError> {
        let done = timeout(SILENCE, future).await;
        done.map_err(|_| LinkError::Silent(SILENCE))
    }
}

impl<Out: Serialize, In: DeserializeOwned + Send + 'static> Link<Out, In> {
    fn new(stream: TlsStream<TcpStream>, silence: Duration) -> Self {
        let (reading, writing) = split(stream);
        let (out, messages) = mpsc::channel(4);
        let (received, incoming) = mpsc::channel(4);
        Link {
            out,
            incoming,
            reader: tokio::spawn(read(reading, received, silence)),
            writer: tokio::spawn(write(writing, messages)),
            _sends: PhantomData,
        }
    }

    /// Sends a message. An error of the connection is received, too.
    pub(super) async fn send(&self, message: &Out) {
        // Messages contain only types that serde_json can always serialize.
        let frame = serde_json::to_vec(message).unwrap_or_default();
        let _ = self.out.send(frame).await;
    }

    /// Sends a message, unless earlier messages still wait: the next one replaces this one.
    pub(super) fn offer(&self, message: &Out) {
        if let Ok(place) = self.out.try_reserve() {
            place.send(serde_json::to_vec(message).unwrap_or_default());
        }
    }

    /// Waits for the next message.
    pub(super) async fn next(&mut self) -> Result<In, LinkError> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Like [`next`](Self::next).
    pub(super) fn poll_next(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<In, LinkError>> {
        let received = self.incoming.poll_recv(context);
        received.map(|received| received.unwrap_or(Err(LinkError::Closed)))
    }

    /// Returns whether the connection has ended, for a side from which no message is expected.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(
            self.incoming.try_recv(),
            Err(mpsc::error::TryRecvError::Empty)
        )
    }

    /// Ends the connection at once, so that the other side cannot take this side for alive.
    pub(super) fn cut(&self) {
        self.reader.abort();
        self.writer.abort();
    }

    /// Sends the messages that still wait, and ends the connection.
    pub(super) async fn close(self) {
        drop(self.out);
        let _ = timeout(SILENCE, self.writer).await;
    }
}

/// Receives frames until the connection fails.
async fn read<In: DeserializeOwned>(
    mut stream: ReadHalf<TlsStream<TcpStream>>,
    received: mpsc::Sender<Result<In, LinkError>>,
    silence: Duration,
) {
    loop {
        let frame = read_frame(&mut stream, LARGEST, silence).await;
        let message = match frame {
            // The other side is alive.
            Ok(frame) if frame.is_empty() => continue,
            Ok(frame) => serde_json::from_slice(&frame).map_err(LinkError::from),
            Err(error) => Err(error),
        };
        let failed = message.is_err();
        if received.send(message).await.is_err() || failed {
            return;
        }
    }
}

/// Sends frames until there are no senders.
async fn write(mut stream: WriteHalf<TlsStream<TcpStream>>, mut messages: mpsc::Receiver<Vec<u8>>) {
    let mut alive = interval(ALIVE);
    loop {
        let frame = tokio::select! {
            frame = messages.recv() => match frame {
                Some(frame) => frame,
                None => break,
            },
            _ = alive.tick() => Vec::new(),
        };
        if write_frame(&mut stream, &frame).await.is_err() {
            return;
        }
    }
    let _ = stream.shutdown().await;
}

fn exported<D>(connection: &ConnectionCommon<D>) -> Result<Exported, LinkError> {
    let exported = connection.export_keying_material([0; 32], LABEL, None);
    exported.map_err(|error| LinkError::Tls(io::Error::other(error)))
}

async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
    let length = length.to_be_bytes();
    // A machine that has disappeared acknowledges nothing: the system would wait for minutes.
    for chunk in std::iter::once(&length[..]).chain(frame.chunks(CHUNK)) {
        timeout(SILENCE, stream.write_all(chunk)).await??;
    }
    timeout(SILENCE, stream.flush()).await?
}

/// Reads a frame: its length in four bytes, then its contents.
pub(super) async fn read_frame(
    stream: &mut (impl AsyncRead + Unpin),
    largest: usize,
    silence: Duration,
) -> Result<Vec<u8>, LinkError> {
    let mut length = [0; 4];
    fill(stream, &mut length, silence).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > largest {
        return Err(LinkError::TooLong(length, largest));
    }
    let mut frame = vec![0; length];
    for chunk in frame.chunks_mut(CHUNK) {
        fill(stream, chunk, silence).await?;
    }
    Ok(frame)
}

async fn fill(
    stream: &mut (impl AsyncRead + Unpin),
    bytes: &mut [u8],
    silence: Duration,
) -> Result<(), LinkError> {
    match timeout(silence, stream.read_exact(bytes)).await {
        Err(_) => Err(LinkError::Silent(silence)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Err(LinkError::Closed),
        Ok(result) => Ok(result.map(drop)?),
    }
}
