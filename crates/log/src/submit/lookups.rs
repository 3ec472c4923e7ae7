//! Lookups in the dedup index, on a separate thread.
//!
//! Only lookups for which memory is not sufficient (`Dedup::find_in_memory`) come here. The page
//! cache has the data of most of them, but it is unknown in advance which lookups need the disk. A
//! hung disk must not block the threads that serve all logs. It therefore blocks only the lookup
//! thread of its own log, and callers have a timeout. Waking a thread costs more than a lookup, so
//! lookups within a short time share one wakeup.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lucarne_ct::Identity;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::error::Fatal;
use crate::index::dedup::{Dedup, LeafPosition};

/// Maximum number of waiting lookups; further lookups are rejected.
const WAITING: usize = 4096;
/// Pause of the thread after each batch. The pause is short compared with a round. At 10,000
/// entries per second, fifty lookups share each wakeup.
const REST: Duration = Duration::from_millis(5);
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// The handle of the thread that reads an index, and closes the index at its end.
pub(crate) struct Lookups {
    asked: mpsc::Sender<LookupRequest>,
    /// Number of completed lookups.
    answered: Arc<AtomicU64>,
    closed: watch::Receiver<bool>,
}

struct LookupRequest {
    identity: Identity,
    answer: oneshot::Sender<LookupResult>,
}

type LookupResult = Result<Option<LeafPosition>, Fatal>;

/// The reasons why a lookup has no result.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The disk has not completed any lookup within the timeout.
    Silent,
    /// Too many lookups wait, or only other lookups were completed within the timeout.
    Busy,
}

impl Lookups {
    /// Starts the thread. The thread releases the index last, because closing the index accesses
    /// the disk as well.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub(crate) fn start(dedup: Arc<Dedup>) -> std::io::Result<Self> {
        let (asked, asks) = mpsc::channel(WAITING);
        let (closing, closed) = watch::channel(false);
        let answered = Arc::new(AtomicU64::new(0));
        let answers = answered.clone();
        let look = move || {
            answer_all(|identity| dedup.find(identity), asks, &answers);
            let mut dedup = dedup;
            while let Err(shared) = Arc::try_unwrap(dedup).map(drop) {
                dedup = shared;
                // Polling, because the release of the index by its other users sends no
                // notification. Only the end of the log waits here.
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = closing.send(true);
        };
        let thread = std::thread::Builder::new().name("lucarne-dedup".into());
        thread.spawn(look)?;
        Ok(Lookups {
            asked,
            answered,
            closed,
        })
    }

    /// Finds the position of this identity in the log.
    pub(crate) async fn find(&self, identity: Identity) -> Result<LookupResult, NoAnswer> {
        self.find_within(identity, LOOKUP_TIMEOUT).await
    }

    /// Finds a position within `patience`. A disk that completes other lookups is slow, but does
    /// not hang. Clients that submit many known certificates again must not stop a log.
    async fn find_within(
        &self,
        identity: Identity,
        patience: Duration,
    ) -> Result<LookupResult, NoAnswer> {
        let before = self.answered.load(Relaxed);
        let (answer, told) = oneshot::channel();
        let asked = self.asked.try_send(LookupRequest { identity, answer });
        asked.map_err(|_| NoAnswer::Busy)?;
        match timeout(patience, told).await {
            Ok(Ok(found)) => Ok(found),
            _ if self.answered.load(Relaxed) != before => Err(NoAnswer::Busy),
            _ => Err(NoAnswer::Silent),
        }
    }

    /// Stops accepting lookups, and waits until the index is closed or the timeout ends.
    pub(crate) async fn close(self) {
        let Lookups {
            asked, mut closed, ..
        } = self;
        drop(asked);
        let _ = timeout(LOOKUP_TIMEOUT, closed.wait_for(|closed| *closed)).await;
    }
}

fn answer_all(
    find: impl Fn(&Identity) -> LookupResult,
    mut asks: mpsc::Receiver<LookupRequest>,
    answered: &AtomicU64,
) {
    while let Some(first) = asks.blocking_recv() {
        let mut next = Some(first);
        while let Some(LookupRequest { identity, answer }) = next {
            next = asks.try_recv().ok();
            // Skips lookups of cancelled callers.
            if !answer.is_closed() {
                let _ = answer.send(find(&identity));
                answered.fetch_add(1, Relaxed);
            }
        }
        // Requests that arrive during the pause need not wake this thread.
        std::thread::sleep(REST);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as threads;

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);
    /// A time that exceeds the start of a thread on a busy machine.
    const LONG: Duration = Duration::from_secs(3);
    const ONE: Identity = Identity([1; 32]);

    /// Returns lookups that complete one request for each message to the sender.
    fn let_in_turn() -> (Lookups, threads::Sender<()>) {
        let (asked, asks) = mpsc::channel(WAITING);
        let answered = Arc::new(AtomicU64::new(0));
        let (answers, (turn, turns)) = (answered.clone(), threads::channel());
        std::thread::spawn(move || {
            let find = |_: &Identity| {
                let _ = turns.recv();
                Ok(None)
            };
            answer_all(find, asks, &answers);
        });
        let (_, closed) = watch::channel(false);
        let lookups = Lookups {
            asked,
            answered,
            closed,
        };
        (lookups, turn)
    }

    #[tokio::test]
    async fn a_slow_disk_is_told_from_one_that_hangs() {
        let (lookups, turn) = let_in_turn();
        let two = async { tokio::join!(lookups.find(ONE), lookups.find_within(ONE, LONG)) };
        let one_is_answered = async {
            // Both lookups wait now.
            tokio::task::yield_now().await;
            turn.send(()).unwrap();
        };
        let ((first, second), ()) = tokio::join!(two, one_is_answered);
        assert!(matches!(first, Ok(Ok(None))));
        assert!(matches!(second, Err(NoAnswer::Busy)), "{second:?}");
        // From here on, no lookup is completed.
        let silent = lookups.find_within(ONE, SHORT).await;
        assert!(matches!(silent, Err(NoAnswer::Silent)), "{silent:?}");
    }
}
