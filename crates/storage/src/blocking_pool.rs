//! Threads for work that may hang.
//!
//! A hung disk blocks every thread that accesses it. Each kind of work on each directory therefore
//! has a bounded number of threads, so that no log can take threads that other logs need. Callers
//! give up after a timeout; the blocked thread stays blocked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, spawn_blocking};

/// The threads for one kind of work on one directory.
pub(crate) struct BlockingPool {
    free: Arc<Semaphore>,
    patience: Duration,
    /// Whether a caller gave up and no work has finished since.
    stuck: Arc<AtomicBool>,
}

/// The reasons why there is no result.
#[derive(Debug)]
pub(crate) enum NoResult {
    /// The disk did not respond within the timeout.
    Silent,
    /// The work panicked.
    Panicked(JoinError),
}

impl BlockingPool {
    /// Creates a pool of at most `width` threads. Callers give up after `patience`.
    pub(crate) fn new(width: usize, patience: Duration) -> Self {
        Self {
            free: Arc::new(Semaphore::new(width)),
            patience,
            stuck: Arc::default(),
        }
    }

    /// Runs `work` on a thread as soon as one is free. With a width of one, work starts only after
    /// all earlier work has ended, including work whose caller gave up.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoResult> {
        let permit = self.turn().await?;
        let stuck = self.stuck.clone();
        let task = spawn_blocking(move || {
            let result = work();
            stuck.store(false, Relaxed);
            drop(permit);
            result
        });
        match tokio::time::timeout(self.patience, task).await {
            Ok(done) => done.map_err(NoResult::Panicked),
            Err(_) => Err(self.gave_up()),
        }
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, NoResult> {
        let free = self.free.clone();
        match free.clone().try_acquire_owned() {
            Ok(permit) => Ok(permit),
            // All threads hang, so this caller would only wait until its timeout.
            Err(_) if self.stuck.load(Relaxed) => Err(NoResult::Silent),
            Err(_) => match tokio::time::timeout(self.patience, free.acquire_owned()).await {
                Ok(Ok(permit)) => Ok(permit),
                _ => Err(self.gave_up()),
            },
        }
    }

    fn gave_up(&self) -> NoResult {
        self.stuck.store(true, Relaxed);
        NoResult::Silent
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn what_hangs_takes_no_more_threads_than_it_may() {
        let pool = BlockingPool::new(2, SHORT);
        let (mut wake, mut hung) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (sender, receiver) = mpsc::channel::<()>();
            wake.push(sender);
            hung.push(pool.run(move || receiver.recv().is_ok()).await);
        }
        assert!(hung.iter().all(|end| matches!(end, Err(NoResult::Silent))));
        // Later calls fail at once and take no thread.
        for _ in 0..1000 {
            assert!(matches!(pool.run(|| ()).await, Err(NoResult::Silent)));
        }
        assert_eq!(pool.free.available_permits(), 0);
        // Once the disk responds, the pool works as before.
        wake.into_iter().for_each(|sender| sender.send(()).unwrap());
        while pool.run(|| ()).await.is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(|| 7).await.unwrap(), 7);
    }

    /// Later work never overtakes abandoned work, which would undo it.
    #[tokio::test]
    async fn one_at_a_time_means_also_after_giving_up() {
        let pool = BlockingPool::new(1, SHORT);
        let (wake, hang) = mpsc::channel::<()>();
        let (said, order) = mpsc::channel();
        let first = said.clone();
        let late = pool.run(move || {
            let _ = hang.recv();
            first.send("late").unwrap();
        });
        assert!(matches!(late.await, Err(NoResult::Silent)));
        drop(wake);
        let mut next = said.clone();
        while pool.run(move || next.send("next").unwrap()).await.is_err() {
            next = said.clone();
        }
        assert_eq!(order.recv().unwrap(), "late");
        assert_eq!(order.recv().unwrap(), "next");
    }
}
