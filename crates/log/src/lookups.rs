//! Looking into the dedup index, on a thread of its own.
//!
//! Nearly every look-up is answered from memory, and which is not cannot be
//! known before. A disk that hangs must not take the threads that serve all
//! logs with it: it takes this one, of this log, and whoever asks gives up
//! after a while. To wake a thread costs more than to look, so that those who ask
//! within a moment share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lucarne_ct::Identity;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::Fatal;
use crate::dedup::{Dedup, LeafPosition};

/// Look-ups that may wait; more are not taken.
const WAITING: usize = 4096;
/// The time that the thread rests after it has answered. It is nothing beside a
/// round, and at 10,000 entries/s fifty look-ups share each waking.
const REST: Duration = Duration::from_millis(5);
/// The time that one waits for its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The thread that looks into an index, and closes it in the end.
pub(crate) struct Lookups {
    asked: mpsc::Sender<LookupRequest>,
    /// Look-ups that the thread has answered.
    answered: Arc<AtomicU64>,
    closed: watch::Receiver<bool>,
}

struct LookupRequest {
    identity: Identity,
    answer: oneshot::Sender<LookupResult>,
}

type LookupResult = Result<Option<LeafPosition>, Fatal>;

/// The reasons why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The disk has answered nothing for as long as one waits.
    Silent,
    /// Too many wait already, or others were answered for as long as one waits.
    Busy,
}

impl Lookups {
    /// Starts the thread. It is the last to let go of the index: closing it asks
    /// the disk, too.
    ///
    /// # Errors
    /// If the system gives no thread.
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
                // Polled: nothing tells when the last of the others lets go, and
                // only the end of the log waits for it.
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
        self.find_within(identity, PATIENCE).await
    }

    /// A disk that answers others is slow, and does not hang: clients who submit many known certificates again
    /// must not stop a log.
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

    /// Takes no more, and waits for a while until the index is closed.
    pub(crate) async fn close(self) {
        let Lookups {
            asked, mut closed, ..
        } = self;
        drop(asked);
        let _ = timeout(PATIENCE, closed.wait_for(|closed| *closed)).await;
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
            // Who has given up is not looked for.
            if !answer.is_closed() {
                let _ = answer.send(find(&identity));
                answered.fetch_add(1, Relaxed);
            }
        }
        // Meanwhile others ask, and need not wake this thread.
        std::thread::sleep(REST);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as threads;

    use super::*;

    const SHORT: Duration = Duration::from_millis(100);
    /// Longer than a thread takes to begin on a busy machine.
    const LONG: Duration = Duration::from_secs(3);
    const ONE: Identity = Identity([1; 32]);

    /// Look-ups into an index that answers as often as it is let.
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
            // Both wait by now.
            tokio::task::yield_now().await;
            turn.send(()).unwrap();
        };
        let ((first, second), ()) = tokio::join!(two, one_is_answered);
        assert!(matches!(first, Ok(Ok(None))));
        assert!(matches!(second, Err(NoAnswer::Busy)), "{second:?}");
        // Nothing is answered from now on.
        let silent = lookups.find_within(ONE, SHORT).await;
        assert!(matches!(silent, Err(NoAnswer::Silent)), "{silent:?}");
    }
}
