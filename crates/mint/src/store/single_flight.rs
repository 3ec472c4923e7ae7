//! Single flight: one task for each requested key, which all callers wait for.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Minted, Outcome, StoreError, StoreKey};

/// Tasks in flight, by key.
///
/// A task does not belong to a caller: it continues when its callers are dropped, and removes its
/// entry when it ends in any way. So there is one entry per running task, and nothing per caller
/// except the caller's own handle.
#[derive(Debug)]
pub(super) struct SingleFlight {
    open: Mutex<HashMap<StoreKey, watch::Receiver<Option<Outcome>>>>,
    limit: usize,
}

/// The result of joining a task: the certificate, a waiter, or an error.
pub(super) enum Joined {
    /// The certificate existed after all.
    Found(Arc<Minted>),
    /// Waiter for the task that this call started.
    Leader(Waiter),
    /// Waiter for a task that was already in flight.
    Follower(Waiter),
    /// Error: the limit of tasks is reached.
    Full(StoreError),
}

/// Waits for a task.
pub(super) struct Waiter {
    outcome: watch::Receiver<Option<Outcome>>,
    key: StoreKey,
}

impl SingleFlight {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(SingleFlight {
            open: Mutex::default(),
            limit,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// Joins the task of `key`, or starts it with `work`.
    ///
    /// `look` is called before a task starts: a task that ended between the caller's own lookup and
    /// this call has stored its certificate by then.
    pub(super) fn join<F>(
        self: &Arc<Self>,
        key: &StoreKey,
        look: impl FnOnce() -> Option<Arc<Minted>>,
        work: impl FnOnce() -> F,
    ) -> Joined
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let mut open = self.open.lock();
        let waiter = |outcome| Waiter {
            outcome,
            key: key.clone(),
        };
        if let Some(outcome) = open.get(key) {
            return Joined::Follower(waiter(outcome.clone()));
        }
        if let Some(minted) = look() {
            return Joined::Found(minted);
        }
        if open.len() >= self.limit {
            return Joined::Full(StoreError::Overloaded {
                host: key.host.clone(),
                limit: self.limit,
            });
        }
        let (sender, outcome) = watch::channel(None);
        open.insert(key.clone(), outcome.clone());
        let in_flight = InFlight {
            fetches: self.clone(),
            key: key.clone(),
        };
        let work = work();
        tokio::spawn(async move {
            let in_flight = in_flight;
            let outcome = work.await;
            drop(in_flight);
            sender.send_replace(Some(outcome));
        });
        Joined::Leader(waiter(outcome))
    }
}

impl Waiter {
    pub(super) async fn wait(mut self) -> Outcome {
        match self.outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone(),
            Err(_) => None,
        }
        .unwrap_or(Err(StoreError::Abandoned {
            host: self.key.host,
        }))
    }
}

/// Removes a task's entry when the task ends, panics or is dropped.
struct InFlight {
    fetches: Arc<SingleFlight>,
    key: StoreKey,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut open = self.fetches.open.lock();
        open.remove(&self.key);
        // After a peak of names, memory is released.
        if open.capacity() > 64 && open.len() * 4 < open.capacity() {
            let keep = open.len() * 2;
            open.shrink_to(keep);
        }
    }
}
