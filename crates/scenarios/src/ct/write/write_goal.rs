//! Goal for the number of written leaves.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Number of new leaves at which a run ends. Never submits more.
#[derive(Debug, Default)]
pub(super) struct WriteGoal {
    leaves: Option<u64>,
    /// Leaves that are written or in flight.
    claimed: AtomicU64,
    written: AtomicU64,
    reached: Notify,
}

impl WriteGoal {
    pub(super) fn new(leaves: Option<u64>) -> Self {
        Self {
            leaves,
            ..Self::default()
        }
    }

    /// Returns whether another leaf may be submitted. The caller must report its result with
    /// `finish`.
    pub(super) fn claim(&self) -> bool {
        let Some(leaves) = self.leaves else {
            return true;
        };
        let more = |claimed| (claimed < leaves).then_some(claimed + 1);
        let claimed = self
            .claimed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        claimed.is_ok()
    }

    /// Reports whether a claimed leaf was written as a new one.
    pub(super) fn finish(&self, written: bool) {
        let Some(leaves) = self.leaves else {
            return;
        };
        if !written {
            self.claimed.fetch_sub(1, Ordering::Relaxed);
        } else if self.written.fetch_add(1, Ordering::Relaxed) + 1 >= leaves {
            self.reached.notify_one();
        }
    }

    /// Completes when the goal is reached; never without a goal.
    pub(super) async fn reached(&self) {
        match self.leaves {
            Some(_) => self.reached.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Returns whether the goal was reached, if there is one.
    pub(super) fn outcome(&self) -> Option<Result<(), String>> {
        let leaves = self.leaves?;
        let written = self.written.load(Ordering::Relaxed);
        Some(if written >= leaves {
            Ok(())
        } else {
            Err(format!("{written} leaves were written, not {leaves}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn never_more_than_wanted_and_told_when_there() {
        let goal = WriteGoal::new(Some(2));
        assert!(goal.claim() && goal.claim() && !goal.claim());
        goal.finish(false);
        assert!(goal.claim() && !goal.claim());
        goal.finish(true);
        assert!(goal.outcome().unwrap().is_err());
        goal.finish(true);
        goal.reached().await;
        assert_eq!(goal.outcome(), Some(Ok(())));
        let none = WriteGoal::new(None);
        assert!((0..100).all(|_| none.claim()) && none.outcome().is_none());
    }
}
