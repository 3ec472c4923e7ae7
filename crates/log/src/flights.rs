//! One request for a thing, however many ask for it at the same time.

use std::collections::HashMap;
use std::hash::Hash;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;

/// What is under way, by what it is for.
pub(crate) struct Flights<K, T: Clone>(Mutex<HashMap<K, Flight<T>>>);

type Flight<T> = Shared<BoxFuture<'static, T>>;

impl<K, T: Clone> Default for Flights<K, T> {
    fn default() -> Self {
        Flights(Mutex::default())
    }
}

impl<K: Copy + Eq + Hash, T: Clone> Flights<K, T> {
    /// Waits for what is under way for `key`; if nothing is, for `fetch`. It
    /// goes on as long as anybody waits, whoever was the first.
    pub(crate) async fn join(&self, key: K, fetch: impl Future<Output = T> + Send + 'static) -> T {
        let flight = {
            let mut flights = self.0.lock();
            let flight = flights.entry(key).or_insert_with(|| fetch.boxed().shared());
            flight.clone()
        };
        let passenger = Passenger {
            flights: self,
            key,
            flight,
        };
        passenger.flight.clone().await
    }
}

/// Whoever waits; the last one to leave, for whatever reason, clears up.
struct Passenger<'f, K: Copy + Eq + Hash, T: Clone> {
    flights: &'f Flights<K, T>,
    key: K,
    flight: Flight<T>,
}

impl<K: Copy + Eq + Hash, T: Clone> Drop for Passenger<'_, K, T> {
    fn drop(&mut self) {
        let mut flights = self.flights.0.lock();
        let Some(flight) = flights.get(&self.key) else {
            return;
        };
        // What has landed is asked for anew by the next; so is what only the
        // list and we still know.
        let landed = flight.peek().is_some();
        let alone = flight.strong_count().is_none_or(|count| count <= 2);
        if flight.ptr_eq(&self.flight) && (landed || alone) {
            flights.remove(&self.key);
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
        let flights = Arc::new(Flights::default());
        let (started, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let ask = || {
            let (flights, started, go) = (flights.clone(), started.clone(), go.clone());
            tokio::spawn(async move {
                let fetch = async move {
                    let number = started.fetch_add(1, SeqCst);
                    go.notified().await;
                    number
                };
                flights.join(7, fetch).await
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
        assert!(flights.0.lock().is_empty());
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
        assert!(flights.0.lock().is_empty());
    }
}
