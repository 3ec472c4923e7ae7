//! The time at which a request counts as sent.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::Method;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpSocket;

use crate::http::answer::Answer;
use crate::http::body::ReceivedBody;
use crate::http::exchange::Record;
use crate::http::stream::dial;
use crate::http::{Body, ClientOptions, Endpoint, Request, http1};

/// A connection whose other end has the request before the write returns.
#[derive(Default)]
struct Early {
    arrived: Option<Instant>,
}

impl AsyncWrite for Early {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let now = Instant::now();
        self.arrived = Some(now);
        // The clock advances before the write returns.
        while Instant::now() == now {}
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Early {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buffer.put_slice(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        Poll::Ready(Ok(()))
    }
}

/// A server may respond before the client's write returns: that time is waiting time.
#[tokio::test]
async fn waiting_begins_before_the_server_can_have_the_request() {
    let mut stream = Early::default();
    let mut record = Record::new(Answer::new(false, ReceivedBody::limited(100)));
    let (head, request) = (b"GET / HTTP/1.1\r\n\r\n", Request::get("/"));
    let exchange = http1::exchange(&mut stream, head, &request, &mut record);
    exchange.await.unwrap();
    let (sent, arrived) = (record.sent.unwrap(), stream.arrived.unwrap());
    assert!(sent <= arrived, "{:?} too late", sent - arrived);
}

/// A second `Content-Length` would be an invalid request (RFC 9112, section 6.3).
#[tokio::test]
async fn headers_that_the_client_writes_are_sent_once() {
    let options = ClientOptions::default();
    let endpoint = Endpoint::resolve("http://127.0.0.1:80/", &options)
        .await
        .unwrap();
    let headers = [
        ("Host", "a.example"),
        ("Content-Length", "2"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("x", "y"),
    ];
    let method = Method::POST;
    let request = Request::new(&method, "/")
        .headers(&headers)
        .body(Body::One(b"hello"));
    let mut head = Vec::new();
    http1::write_head(&mut head, &request, &endpoint, &options, false).unwrap();
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let lines = |name: &str| head.lines().filter(|line| line.starts_with(name)).count();
    for name in [
        "host: a.example",
        "content-length: 5",
        "connection: close",
        "x: y",
    ] {
        assert_eq!(lines(name), 1, "{name}: {head}");
    }
    for name in ["host:", "content-length:", "connection:"] {
        assert_eq!(lines(name), 1, "{name}: {head}");
    }
    assert_eq!(lines("transfer-encoding"), 0, "{head}");
}

/// Returns the address of a socket that accepts no connection, and does not refuse one either. The
/// other values keep the socket in this state.
fn deaf() -> (SocketAddr, (TcpListener, Vec<TcpStream>)) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap().into_std().unwrap();
    let address = listener.local_addr().unwrap();
    // The queue of the socket is full when a connection is not established.
    let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(2));
    let queued = std::iter::from_fn(|| connect().ok()).collect();
    (address, (listener, queued))
}

/// The second address is tried after 250 ms, not after its share of the time limit (RFC 8305).
#[tokio::test]
async fn an_address_that_does_not_respond_delays_the_connection_only_a_little() {
    let (deaf, _kept) = tokio::task::spawn_blocking(deaf).await.unwrap();
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = [deaf, server.local_addr().unwrap()];
    let began = tokio::time::Instant::now();
    let limit = Duration::from_secs(120);
    let connected = dial(&addresses, began + limit).await.unwrap();
    assert_eq!(connected.peer_addr().unwrap(), addresses[1]);
    assert!(began.elapsed() < limit / 2, "{:?}", began.elapsed());
}
