//! Addresses of servers, with or without TLS.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use mio::net::TcpStream;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// An address, and the TLS settings for it.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }
}

impl Endpoint {
    /// Returns the scheme of the URLs of this address.
    pub(crate) fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }

    /// Connects, and completes the TLS handshake, if any.
    pub(crate) fn connect(&self) -> io::Result<Stream> {
        let mut tcp = std::net::TcpStream::connect(self.address)?;
        tcp.set_nodelay(true)?;
        let tls = match &self.tls {
            None => None,
            Some(config) => {
                let name = self.address.ip().into();
                let connection = ClientConnection::new(config.clone(), name);
                let mut connection = connection.map_err(io::Error::other)?;
                while connection.is_handshaking() {
                    connection.complete_io(&mut tcp)?;
                }
                Some(connection)
            }
        };
        tcp.set_nonblocking(true)?;
        let tcp = TcpStream::from_std(tcp);
        Ok(match tls {
            None => Stream::Plain(tcp),
            Some(connection) => Stream::Tls(Box::new(StreamOwned::new(connection, tcp))),
        })
    }

    /// Returns the body of a response with status 200, as text.
    pub(crate) fn get(&self, path: &str) -> Result<String> {
        let body = self.get_with(path, "")?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Returns the compressed body of a response with status 200.
    pub(crate) fn get_gzip(&self, path: &str) -> Result<Vec<u8>> {
        self.get_with(path, "Accept-Encoding: gzip\r\n")
    }

    fn get_with(&self, path: &str, headers: &str) -> Result<Vec<u8>> {
        let url = format!("{}://{}{path}", self.scheme(), self.address);
        let mut tcp = std::net::TcpStream::connect(self.address)?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}Connection: close\r\n\r\n",
            self.address
        );
        let exchange = |stream: &mut dyn ReadWrite| -> io::Result<Vec<u8>> {
            let mut answer = Vec::new();
            stream.write_all(request.as_bytes())?;
            stream.read_to_end(&mut answer)?;
            Ok(answer)
        };
        let answer = match &self.tls {
            None => exchange(&mut tcp),
            Some(config) => {
                let mut tls = ClientConnection::new(config.clone(), self.address.ip().into())?;
                exchange(&mut rustls::Stream::new(&mut tls, &mut tcp))
            }
        };
        let mut answer = answer.with_context(|| format!("cannot fetch {url}"))?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.with_context(|| format!("{url}: the response is not HTTP"))?;
        let head = String::from_utf8_lossy(&answer[..end]);
        ensure!(
            head.starts_with("HTTP/1.1 200 "),
            "{url}: expected status 200, found:\n{head}"
        );
        Ok(answer.split_off(end + 4))
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// A connection that does not block.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Returns the socket to poll.
    pub(crate) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => &mut tls.sock,
        }
    }

    /// Returns whether a read that does not fill its buffer shows that the socket is empty.
    pub(crate) fn reads_all(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write_vectored(pieces),
            // One TLS record for all pieces, instead of one for each.
            Self::Tls(tls) => {
                let record: Vec<u8> = pieces
                    .iter()
                    .flat_map(|piece| piece.iter().copied())
                    .collect();
                tls.write(&record)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}
