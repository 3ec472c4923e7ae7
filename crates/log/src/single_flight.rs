//! Single flight: one request for a thing, however many ask for it at the same time.

use std::collections::HashMap;
use std::hash::Hash;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;

/// The requests in flight, by what they are for.
pub(crate) struct SingleFlight<K, T: Clone>(Mutex<HashMap<K, SharedFuture<T>>>);

type SharedFuture<T> = Shared<BoxFuture<'static, T>>;

impl<K, T: Clone> Default for SingleFlight<K, T> {
    fn default() -> Self {
        SingleFlight(Mutex::default())
    }
}

impl<K: Copy + Eq + Hash, T: Clone> SingleFlight<K, T> {
    /// Waits for what is under way for `key`; if nothing is, for `fetch`. It
    /// goes on as long as anybody waits, whoever was the first.
    pub(crate) async fn join(&self, key: K, fetch: impl Future<Output = T> + Send + 'static) -> T {
        let future = {
            let mut single_flight = self.0.lock();
            let future = single_flight
                .entry(key)
                .or_insert_with(|| fetch.boxed().shared());
            future.clone()
        };
        let waiter = Waiter {
            single_flight: self,
            key,
            future,
        };
        waiter.future.clone().await
    }
}

/// Whoever waits; the last one to leave, for whatever reason, clears up.
struct Waiter<'f, K: Copy + Eq + Hash, T: Clone> {
    single_flight: &'f SingleFlight<K, T>,
    key: K,
    future: SharedFuture<T>,
}

impl<K: Copy + Eq + Hash, T: Clone> Drop for Waiter<'_, K, T> {
    fn drop(&mut self) {
        let mut single_flight = self.single_flight.0.lock();
        let Some(future) = single_flight.get(&self.key) else {
            return;
        };
        // What is done is asked for anew by the next; so is what only the
        // list and we still know.
        let done = future.peek().is_some();
        let alone = future.strong_count().is_none_or(|count| count <= 2);
        if future.ptr_eq(&self.future) && (done || alone) {
            single_flight.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn many_ask_and_one_goes() {
        let single_flight = Arc::new(SingleFlight::default());
        let (started, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let ask = || {
            let (single_flight, started, go) = (single_flight.clone(), started.clone(), go.clone());
            tokio::spawn(async move {
                let fetch = async move {
                    let number = started.fetch_add(1, SeqCst);
                    go.notified().await;
                    number
                };
                single_flight.join(7, fetch).await
            })
        };
        let first = ask();
        tokio::task::yield_now().await;
        let others: Vec<_> = (0..10).map(|_| ask()).collect();
        tokio::task::yield_now().await;
        // Whoever was the first may leave; the others still get it.
        first.abort();
        assert!(first.await.is_err());
        go.notify_one();
        for other in others {
            assert_eq!(other.await.unwrap(), 0);
        }
        assert_eq!(started.load(SeqCst), 1);
        assert!(single_flight.0.lock().is_empty());
        // It is not kept: the next one goes again.
        let next = ask();
        tokio::task::yield_now().await;
        go.notify_one();
        assert_eq!(next.await.unwrap(), 1);
        // One that nobody waits for any more is not left behind.
        let left = ask();
        tokio::task::yield_now().await;
        left.abort();
        let _ = left.await;
        assert!(single_flight.0.lock().is_empty());
    }
}
