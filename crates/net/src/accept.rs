//! Accepting and counting connections, and the wait for the end of the last one.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Pause after an error, which gives open connections time to end.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts the next connection, and returns it with the peer's address. Waits after errors. The
/// future may be dropped at any time without losing a connection.
pub async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => wait_out(&error).await,
        }
    }
}

/// Handles an error of `accept`. If the client has already disconnected, no action is needed. Other
/// errors, such as too many open files, last longer: the function logs the error and waits.
async fn wait_out(error: &io::Error) {
    if !matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    ) {
        tracing::warn!("accepting a connection failed: {error}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Counts open connections. Clones share the count and are cheap.
#[derive(Clone, Debug, Default)]
pub struct OpenConnections(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    count: AtomicUsize,
    /// Notified when the last connection has ended.
    empty: Notify,
}

/// A connection that is counted until the value is dropped.
#[derive(Debug)]
pub struct OpenConnection(Arc<Shared>);

impl OpenConnections {
    /// Counts another connection until the returned value is dropped.
    pub fn enter(&self) -> OpenConnection {
        self.0.count.fetch_add(1, Ordering::SeqCst);
        OpenConnection(self.0.clone())
    }

    /// Returns the number of open connections.
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::SeqCst)
    }

    /// Waits up to `patience` until there are no connections. Returns `false` if some are still
    /// open.
    pub async fn ended(&self, patience: Duration) -> bool {
        timeout(patience, self.gone()).await.is_ok()
    }

    /// Waits up to `patience` until there are no connections. Returns `false` and logs a warning if
    /// some are still open.
    pub async fn drain(&self, patience: Duration) -> bool {
        let drained = self.ended(patience).await;
        if !drained {
            let open = self.count();
            tracing::warn!("{open} connections did not end in time and were cut off");
        }
        drained
    }

    async fn gone(&self) {
        loop {
            let mut empty = pin!(self.0.empty.notified());
            // Registers before checking, so that the end of the last connection is not missed.
            empty.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            empty.await;
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.empty.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_one_ends_the_wait() {
        let open = OpenConnections::default();
        assert!(open.drain(Duration::ZERO).await);
        let (first, second) = (open.enter(), open.enter());
        drop(first);
        assert_eq!(open.count(), 1);
        assert!(!open.drain(Duration::from_millis(5)).await);
        let waiter = tokio::spawn({
            let open = open.clone();
            async move { open.drain(Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        drop(second);
        assert!(waiter.await.unwrap());
    }
}
