//! The connections that are open, and the end of the last one.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// Counts connections that are open. Cheap to clone: all are the same count.
#[derive(Clone, Debug, Default)]
pub struct OpenConnections(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    count: AtomicUsize,
    /// Told when the last one has gone.
    empty: Notify,
}

/// A connection, counted for as long as this lives.
#[derive(Debug)]
pub struct OpenConnection(Arc<Shared>);

impl OpenConnections {
    /// Counts one more.
    pub fn enter(&self) -> OpenConnection {
        self.0.count.fetch_add(1, Ordering::SeqCst);
        OpenConnection(self.0.clone())
    }

    /// The connections that are open now.
    pub fn count(&self) -> usize {
        self.0.count.load(Ordering::SeqCst)
    }

    /// Waits until there is none, for up to `patience`. Returns false if some were
    /// not done by then.
    pub async fn ended(&self, patience: Duration) -> bool {
        timeout(patience, self.gone()).await.is_ok()
    }

    /// Waits until there is none, for up to `patience`. Returns false, and has
    /// said so, if some were not done by then.
    pub async fn drain(&self, patience: Duration) -> bool {
        let drained = self.ended(patience).await;
        if !drained {
            let open = self.count();
            tracing::warn!("{open} connections were not done in time and have been cut");
        }
        drained
    }

    async fn gone(&self) {
        loop {
            let mut empty = pin!(self.0.empty.notified());
            // Listening before looking: the last connection cannot slip through.
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
