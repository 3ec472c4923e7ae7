//! The last response of a connection, and its end.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

pub(crate) const REQUEST_TIMEOUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\n\
    content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: 39\r\n\r\n\
    the request head did not arrive in time";

pub(crate) const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain; charset=utf-8\r\nconnection: close\r\nretry-after: 5\r\n\
    content-length: 48\r\n\r\nthe server has the maximum number of connections";

pub(crate) const TOO_MANY_EACH: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\n\
    content-type: text/plain; charset=utf-8\r\nconnection: close\r\nretry-after: 5\r\n\
    content-length: 50\r\n\r\nyour address has the maximum number of connections";

/// Sends a last response, closes the server's side, and discards the client's bytes for up to three
/// seconds. Closing a socket with unread bytes resets the connection, and the client might never
/// see the response while it still sends its body.
pub(crate) async fn close<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, last: &'static [u8]) {
    let farewell = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        let mut unread = vec![0; 4 << 10];
        while stream.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _ = timeout(Duration::from_secs(3), farewell).await;
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_fixed_responses_count_right() {
        for response in [
            super::REQUEST_TIMEOUT,
            super::TOO_MANY,
            super::TOO_MANY_EACH,
        ] {
            let text = std::str::from_utf8(response).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let length = format!("content-length: {}", body.len());
            assert!(head.contains(&length), "{length}");
        }
    }
}
