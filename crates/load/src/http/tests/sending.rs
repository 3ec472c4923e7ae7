//! The time at which a request counts as sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::answer::Answer;
use crate::http::exchange::Record;
use crate::http::{Request, http1};

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
    let mut record = Record::new(Answer::new(false, 100));
    let (head, request) = (b"GET / HTTP/1.1\r\n\r\n", Request::get("/"));
    let exchange = http1::exchange(&mut stream, head, &request, &mut record);
    exchange.await.unwrap();
    let (sent, arrived) = (record.sent.unwrap(), stream.arrived.unwrap());
    assert!(sent <= arrived, "{:?} too late", sent - arrived);
}
