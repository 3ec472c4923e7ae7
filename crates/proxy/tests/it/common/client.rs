//! Clients of the proxy.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lucarne_mint::Authority;
use lucarne_testkit::tls_client;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{EVENT_TIMEOUT, Rig};

/// A response that was read completely.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) async fn of(response: Response<Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }
}

/// Sends CONNECT, and returns the connection and the head of the response.
pub(crate) async fn connect(proxy: SocketAddr, authority: &str) -> (TcpStream, String) {
    connect_over(TcpStream::connect(proxy).await.unwrap(), authority).await
}

/// Sends CONNECT on a connection to the proxy.
pub(crate) async fn connect_over(mut stream: TcpStream, authority: &str) -> (TcpStream, String) {
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = head(&mut stream).await;
    (stream, head)
}

/// Reads up to the empty line.
pub(crate) async fn head<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut head = Vec::new();
    let reading = async {
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => break,
            }
        }
    };
    tokio::time::timeout(EVENT_TIMEOUT, reading).await.unwrap();
    String::from_utf8_lossy(&head).into_owned()
}

/// Sends these bytes to the proxy, and reads its complete response.
pub(crate) async fn raw(proxy: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut said = Vec::new();
    let reading = stream.read_to_end(&mut said);
    // A connection that was reset is closed, too.
    let _ = tokio::time::timeout(EVENT_TIMEOUT, reading).await.unwrap();
    String::from_utf8_lossy(&said).into_owned()
}

pub(crate) fn connector(ca: &Authority, alpn: &[&str]) -> TlsConnector {
    let config = tls_client([ca.cert_der().to_vec()], alpn);
    config.unwrap().into()
}

/// Opens TLS through the proxy, as a client that trusts only this CA.
pub(crate) async fn tls(
    rig: &Rig,
    ca: &Authority,
    authority: &str,
    name: &str,
    alpn: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let (stream, head) = connect(rig.address, authority).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    tls_over(stream, ca, name, alpn).await
}

/// Starts TLS on a connection after CONNECT, as a client that trusts only this CA.
pub(crate) async fn tls_over(
    stream: TcpStream,
    ca: &Authority,
    name: &str,
    alpn: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let handshake = connector(ca, alpn).connect(name, stream);
    tokio::time::timeout(EVENT_TIMEOUT, handshake)
        .await
        .unwrap()
}

/// Returns the ClientHello with this name and these protocols.
pub(crate) fn hello(ca: &Authority, name: &str, alpn: &[&str], fragment: Option<usize>) -> Vec<u8> {
    let config = tls_client([ca.cert_der().to_vec()], alpn).unwrap();
    let mut config = std::sync::Arc::unwrap_or_clone(config);
    config.max_fragment_size = fragment;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = rustls::ClientConnection::new(config.into(), name).unwrap();
    let mut hello = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut hello).unwrap();
    }
    hello
}

/// Sends a request on a new intercepted connection.
pub(crate) async fn get(
    rig: &Rig,
    authority: &str,
    name: &str,
    alpn: &[&str],
    path: &str,
) -> Answer {
    let stream = tls(rig, &rig.ca, authority, name, alpn).await.unwrap();
    let host = match name.parse::<std::net::IpAddr>() {
        Ok(_) => authority.to_owned(),
        Err(_) => name.to_owned(),
    };
    over(stream, &host, path).await
}

/// Sends a request on an existing connection.
pub(crate) async fn over(stream: TlsStream<TcpStream>, host: &str, path: &str) -> Answer {
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let asking = async {
        if http2 {
            let mut sender = http2_over(stream).await;
            let uri = format!("https://{host}{path}");
            let request = Request::get(uri).body(Full::default()).unwrap();
            Answer::of(sender.send_request(request).await.unwrap()).await
        } else {
            let mut sender = http1_over(stream).await;
            let request = Request::get(path).header("host", host);
            let request = request.body(Full::default()).unwrap();
            Answer::of(sender.send_request(request).await.unwrap()).await
        }
    };
    tokio::time::timeout(EVENT_TIMEOUT, asking).await.unwrap()
}

pub(crate) async fn http1_over<S, B>(stream: S) -> http1::SendRequest<B>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    B: hyper::body::Body<Data = Bytes, Error = Infallible> + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    sender
}

pub(crate) async fn http2_over<S, B>(stream: S) -> http2::SendRequest<B>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    B: hyper::body::Body<Data = Bytes, Error = Infallible> + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Sends a request through the proxy to a server of plain HTTP.
pub(crate) async fn plain(rig: &Rig, url: &str) -> Answer {
    let request = Request::get(url).body(Full::default()).unwrap();
    ask(rig, request).await
}

/// Sends a request on a new connection to the proxy, without CONNECT.
pub(crate) async fn ask(rig: &Rig, request: Request<Full<Bytes>>) -> Answer {
    let stream = TcpStream::connect(rig.address).await.unwrap();
    let mut sender = http1_over(stream).await;
    let answer = async { Answer::of(sender.send_request(request).await.unwrap()).await };
    tokio::time::timeout(EVENT_TIMEOUT, answer).await.unwrap()
}
