use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lucarne_net::{explain, first_of, interleave, tls_error};
use rustls::{AlertDescription, CertificateError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::exchange::Record;
use super::options::WITHOUT_HTTP2;
use super::staple::recorded;
use super::{ClientOptions, Endpoint, Handshake, Version, kind};
use crate::Failure;

/// A connection with or without TLS.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    // Boxed because a TLS session is large, and an idle user should be small.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Returns whether the server has neither closed an idle connection nor sent unrequested bytes.
    /// Needs no system call unless something has arrived.
    pub(super) fn is_idle(&mut self) -> bool {
        let mut byte = [0];
        let mut context = Context::from_waker(Waker::noop());
        Pin::new(self)
            .poll_read(&mut context, &mut ReadBuf::new(&mut byte))
            .is_pending()
    }

    /// Connects to the first address of `endpoint` that accepts the connection, and performs the
    /// handshake.
    pub(super) async fn open(
        endpoint: &Endpoint,
        options: &ClientOptions,
        record: &mut Record<'_>,
    ) -> Result<Self, Failure> {
        let began = Instant::now();
        let until = began + options.connect_timeout;
        let tcp = dial(&endpoint.addresses, until).await?;
        // Fails if the connection is already closed, which the next step reports.
        let _ = tcp.set_nodelay(true);
        record.connected(&tcp, began.elapsed());
        let stream = Self::secure(tcp, endpoint, options, until, record).await?;
        record.ready = std::time::Instant::now();
        Ok(stream)
    }

    /// Performs the TLS handshake on a connection, if the endpoint uses TLS.
    pub(super) async fn secure(
        tcp: TcpStream,
        endpoint: &Endpoint,
        options: &ClientOptions,
        until: Instant,
        record: &mut Record<'_>,
    ) -> Result<Self, Failure> {
        let Some((config, name)) = &endpoint.tls else {
            return Ok(Stream::Plain(tcp));
        };
        let began = Instant::now();
        let connector = TlsConnector::from(config.clone());
        // On the heap: each async block around the handshake would otherwise enlarge the future of
        // every connection by the size of the handshake.
        let handshake = Box::pin(connector.connect(name.clone(), tcp));
        let (stream, staple) = recorded(timeout_at(until, handshake)).await;
        let stream = match stream {
            Ok(stream) => {
                stream.map_err(|error| refused(&error, &endpoint.host, options.version))?
            }
            Err(_) => return Err(too_late("no TLS handshake", options.connect_timeout)),
        };
        require_alpn(&stream, options.version)?;
        record.tls = Some(began.elapsed());
        record.handshake = Some(Box::new(Handshake::of(stream.get_ref().1, staple)));
        Ok(Stream::Tls(Box::new(stream)))
    }

    /// Reads the messages after a TLS 1.3 handshake, until there is a ticket for resumption or
    /// anything else arrives.
    pub(super) async fn ticket(&mut self) {
        let Stream::Tls(stream) = self else { return };
        let mut byte = [0];
        std::future::poll_fn(|context| {
            let mut buffer = ReadBuf::new(&mut byte);
            let read = Pin::new(&mut **stream).poll_read(context, &mut buffer);
            match stream.get_ref().1.tls13_tickets_received() {
                0 => read.map(|_| ()),
                _ => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Shuts the connection down, as far as possible without waiting.
    pub(super) fn close(mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut self).poll_shutdown(&mut context);
    }
}

/// Connects to the first address that accepts the connection (RFC 8305).
pub(super) async fn dial(addresses: &[SocketAddr], until: Instant) -> Result<TcpStream, Failure> {
    let left = until.saturating_duration_since(Instant::now());
    match timeout_at(until, first_of(interleave(addresses.to_vec()))).await {
        Ok(connected) => connected.map_err(|(address, error)| unconnected(address, &error)),
        Err(_) => {
            let addresses: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
            let addresses = addresses.join(" and ");
            Err(too_late(&format!("no connection to {addresses}"), left))
        }
    }
}

pub(super) fn too_late(what: &str, time: Duration) -> Failure {
    let time = time.as_secs_f64();
    Failure::new(kind::CONNECT_TIMEOUT, format!("{what} within {time:.1} s"))
}

fn unconnected(address: SocketAddr, error: &io::Error) -> Failure {
    let (kind, hint) = match error.kind() {
        io::ErrorKind::ConnectionRefused => (kind::CONNECT_REFUSED, ""),
        io::ErrorKind::TimedOut => (kind::CONNECT_TIMEOUT, ""),
        _ if is_reset(error) => (kind::RESET, ""),
        io::ErrorKind::AddrNotAvailable => (
            kind::CONNECT,
            "; every local port is in use: keep connections alive, or use more addresses",
        ),
        // `io::ErrorKind` has no kind for too many open files.
        _ if error.to_string().contains("open files") => {
            (kind::CONNECT, "; raise the limit (ulimit -n)")
        }
        _ => (kind::CONNECT, ""),
    };
    Failure::new(kind, format!("cannot connect to {address}: {error}{hint}"))
}

/// Returns whether the peer has ended the connection, at any step.
fn is_reset(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
    )
}

fn refused(error: &io::Error, host: &str, version: Version) -> Failure {
    let cause = tls_error(error);
    let kind = match cause {
        None if is_reset(error) => kind::RESET,
        _ => kind::TLS,
    };
    let detail = match cause {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => format!(
            "the certificate of {host} comes from an issuer that is not trusted: \
             name its root (--ca) or accept any certificate (--insecure)"
        ),
        // Servers with a common protocol continue; some servers without it end the handshake.
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            not_offered(version)
        }
        Some(cause) => format!("the TLS handshake with {host} failed: {}", explain(cause)),
        None => format!("the TLS handshake with {host} failed: {error}"),
    };
    Failure::new(kind, detail)
}

/// Checks ALPN: HTTP/2 must be negotiated; without ALPN a server speaks HTTP/1.1.
fn require_alpn(stream: &TlsStream<TcpStream>, version: Version) -> Result<(), Failure> {
    let agreed = stream.get_ref().1.alpn_protocol();
    let fits = match version {
        Version::Http1 => agreed.is_none_or(|agreed| agreed == version.alpn()),
        Version::Http2 => agreed == Some(version.alpn()),
    };
    if fits {
        return Ok(());
    }
    Err(Failure::new(kind::PROTOCOL, not_offered(version)))
}

fn not_offered(version: Version) -> String {
    let wanted = version.name();
    let detail = format!("the server does not offer {wanted} (by ALPN)");
    match version {
        Version::Http1 => detail,
        Version::Http2 => format!("{detail}: {WITHOUT_HTTP2}"),
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
