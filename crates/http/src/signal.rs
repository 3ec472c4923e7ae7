//! An event. Ten thousand connections can wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// A flag. Waiting costs one load per poll and no lock, because a connection is
/// polled for every request.
#[derive(Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    notify: Notify,
}

impl Signal {
    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    /// Lowers the flag. A task that has not yet seen the raised flag waits for the next time.
    pub(crate) fn lower(&self) {
        self.raised.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Returns a future that is ready when the flag is raised. Only one task may poll the future,
    /// because the waker is registered at the first poll.
    pub(crate) fn raised(&self) -> Raised<'_> {
        Raised {
            signal: self,
            notified: Box::pin(self.notify.notified()),
            registered: false,
        }
    }
}

pub(crate) struct Raised<'a> {
    signal: &'a Signal,
    notified: Pin<Box<Notified<'a>>>,
    registered: bool,
}

impl Future for Raised<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Register before reading the flag, so that no wakeup is lost.
        if !self.registered {
            let _ = self.notified.as_mut().poll(cx);
            self.registered = true;
        }
        if self.signal.is_raised() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn wakes_those_who_wait_and_those_who_come_later() {
        let signal = Arc::new(Signal::default());
        let waiter = {
            let signal = signal.clone();
            tokio::spawn(async move { signal.raised().await })
        };
        // Lets the waiter poll for the first time: all tasks of this test share one thread.
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        signal.raise();
        waiter.await.unwrap();
        signal.raised().await;
    }
}
