//! Single flight: concurrent requests for the same key share one operation.

use std::collections::HashMap;
use std::hash::Hash;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;

/// The requests in flight, by key.
pub(crate) struct SingleFlight<K, T: Clone>(Mutex<HashMap<K, Flight<T>>>);

type SharedFuture<T> = Shared<BoxFuture<'static, T>>;

struct Flight<T: Clone> {
    future: SharedFuture<T>,
    /// Number of waiting callers, which changes only under the lock. The last caller to leave
    /// removes the request. Nothing would poll a request without waiters, so the request would keep
    /// its semaphore permit forever.
    waiters: usize,
}

impl<K, T: Clone> Default for SingleFlight<K, T> {
    fn default() -> Self {
        SingleFlight(Mutex::default())
    }
}

impl<K: Copy + Eq + Hash, T: Clone> SingleFlight<K, T> {
    /// Waits for the request in flight for `key`, or starts `fetch` if no request is in flight. The
    /// request continues as long as it has a waiter, even if the first waiter leaves.
    pub(crate) async fn join(&self, key: K, fetch: impl Future<Output = T> + Send + 'static) -> T {
        let future = {
            let mut flights = self.0.lock();
            let flight = flights.entry(key).or_insert_with(|| Flight {
                future: fetch.boxed().shared(),
                waiters: 0,
            });
            flight.waiters += 1;
            flight.future.clone()
        };
        let waiter = Waiter {
            single_flight: self,
            key,
            future,
        };
        waiter.future.clone().await
    }
}

/// A waiting caller. The last caller to leave, for any reason, removes the request.
struct Waiter<'f, K: Copy + Eq + Hash, T: Clone> {
    single_flight: &'f SingleFlight<K, T>,
    key: K,
    future: SharedFuture<T>,
}

impl<K: Copy + Eq + Hash, T: Clone> Drop for Waiter<'_, K, T> {
    fn drop(&mut self) {
        let mut flights = self.single_flight.0.lock();
        let flight = flights.get_mut(&self.key);
        let Some(flight) = flight.filter(|flight| flight.future.ptr_eq(&self.future)) else {
            return;
        };
        flight.waiters -= 1;
        // A completed request, or a request without waiters, is not used for the next caller.
        if flight.waiters == 0 || flight.future.peek().is_some() {
            flights.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

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
        // The first caller may leave; the other callers still get the result.
        first.abort();
        assert!(first.await.is_err());
        go.notify_one();
        for other in others {
            assert_eq!(other.await.unwrap(), 0);
        }
        assert_eq!(started.load(SeqCst), 1);
        assert!(single_flight.0.lock().is_empty());
        // The result is not kept: the next caller starts a new request.
        let next = ask();
        tokio::task::yield_now().await;
        go.notify_one();
        assert_eq!(next.await.unwrap(), 1);
        // A request without waiters is removed.
        let left = ask();
        tokio::task::yield_now().await;
        left.abort();
        let _ = left.await;
        assert!(single_flight.0.lock().is_empty());
    }

    #[test]
    fn waiters_that_leave_at_the_same_time_leave_nothing_behind() {
        const KEYS: usize = 20_000;
        let single_flight = &SingleFlight::<usize, ()>::default();
        let waiters = || {
            let waiter = |key| {
                let mut waiter = Box::pin(single_flight.join(key, pending()));
                assert!(waiter.as_mut().now_or_never().is_none());
                waiter
            };
            (0..KEYS).map(waiter).collect::<Vec<_>>()
        };
        let (left, right) = (waiters(), waiters());
        let ready = &AtomicUsize::new(0);
        thread::scope(|threads| {
            for waiters in [left, right] {
                threads.spawn(move || {
                    for (n, waiter) in waiters.into_iter().enumerate() {
                        ready.fetch_add(1, SeqCst);
                        while ready.load(SeqCst) < 2 * (n + 1) {
                            thread::yield_now();
                        }
                        drop(waiter);
                    }
                });
            }
        });
        assert_eq!(single_flight.0.lock().len(), 0);
    }
}
