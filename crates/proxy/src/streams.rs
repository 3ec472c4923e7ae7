//! Streams of an HTTP/2 connection to a server.
//!
//! The streams of a connection share the server's limit of concurrent streams and the window for
//! request bodies. A client could use up both, and stop the requests of others. Therefore all
//! streams of a connection belong to one client at a time.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use hyper::client::conn::http2;
use hyper::rt::{Read, Write};
use parking_lot::Mutex;

use crate::outgoing::Outgoing;
use crate::stalled::{self, StreamExecutor};

/// Limit of streams until the server has sent its SETTINGS. Servers set no limit this high: the
/// largest has 32 bits.
pub(crate) const UNKNOWN: usize = usize::MAX - 1;

/// A connection to a server, for its task.
type Driven<T> = http2::Connection<T, Outgoing, StreamExecutor>;

/// Streams of one connection.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Limit of concurrent streams that the server has set.
    max: AtomicUsize,
    used: Mutex<Used>,
}

/// Use of the streams.
#[derive(Debug, Default)]
struct Used {
    /// The last client that reserved a stream.
    client: Option<IpAddr>,
    /// Number of streams that this client uses.
    streams: usize,
}

/// A reserved stream, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Stream(Arc<Streams>);

impl Streams {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Streams {
            max: AtomicUsize::new(max),
            used: Mutex::default(),
        })
    }

    /// Reserves a stream. Returns `None` if another client uses the connection, or if all streams
    /// that the server allows are in use.
    pub(crate) fn reserve(self: &Arc<Self>, client: IpAddr) -> Option<Arc<Stream>> {
        let mut used = self.used.lock();
        let foreign = used.streams > 0 && used.client != Some(client);
        if foreign || used.streams >= self.max.load(Ordering::Relaxed) {
            return None;
        }
        used.client = Some(client);
        used.streams += 1;
        Some(Arc::new(Stream(self.clone())))
    }

    /// Returns whether this client was the last to reserve a stream.
    pub(crate) fn are_of(&self, client: IpAddr) -> bool {
        self.used.lock().client == Some(client)
    }

    pub(crate) fn are_idle(&self) -> bool {
        self.used.lock().streams == 0
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.used.lock().streams -= 1;
    }
}

/// Waits for the server's SETTINGS, and runs the connection in a task of its own. Returns `None` if
/// the server closed the connection first.
///
/// # Errors
/// If the server sent something else.
pub(crate) async fn open<T>(
    mut connection: Driven<T>,
    executor: &StreamExecutor,
) -> Result<Option<Arc<Streams>>, hyper::Error>
where
    T: Read + Write + Send + Unpin + 'static,
{
    let max = poll_fn(|cx| {
        // hyper reads frames in another task, and does not wake this one.
        executor.wake_after_poll(cx.waker());
        let ended = Pin::new(&mut connection).poll(cx);
        match (connection.current_max_send_streams(), ended) {
            (_, Poll::Ready(ended)) => Poll::Ready(ended.map(|()| None)),
            (UNKNOWN, Poll::Pending) => Poll::Pending,
            (max, Poll::Pending) => Poll::Ready(Ok(Some(max))),
        }
    });
    let Some(max) = max.await? else {
        return Ok(None);
    };
    let streams = Streams::new(max);
    let limited = streams.clone();
    let task = poll_fn(move |cx| {
        let ended = Pin::new(&mut connection).poll(cx);
        // A server may change its limit. hyper polls the connection for every request.
        let max = connection.current_max_send_streams();
        limited.max.store(max, Ordering::Relaxed);
        ended
    });
    // The sender of a request gets the error that ends the connection.
    tokio::spawn(stalled::connection(task));
    Ok(Some(streams))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const BOB: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn streams_belong_to_one_client_until_all_have_ended() {
        let streams = Streams::new(2);
        let first = streams.reserve(ALICE).unwrap();
        let second = streams.reserve(ALICE).unwrap();
        assert!(streams.reserve(ALICE).is_none(), "the limit is reached");
        drop(first);
        assert!(streams.reserve(BOB).is_none(), "another client uses it");
        let third = streams.reserve(ALICE).unwrap();
        // A stream ends with its last holder: the body of the request or of the response.
        let body = third.clone();
        drop((second, third));
        assert!(streams.reserve(BOB).is_none() && !streams.are_idle());
        drop(body);
        assert!(streams.are_idle() && streams.are_of(ALICE));
        let _taken_over = streams.reserve(BOB).unwrap();
        assert!(streams.are_of(BOB) && streams.reserve(ALICE).is_none());
    }
}
