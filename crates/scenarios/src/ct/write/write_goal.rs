//! Goal for the number of written leaves.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Number of new leaves at which a run ends. The scenario never submits more leaves.
#[derive(Debug, Default)]
pub(super) struct WriteGoal {
    leaves: Option<u64>,
    /// Leaves that are written or in flight.
    claimed: AtomicU64,
    written: AtomicU64,
    reached: Notify,
}

/// The run ended before the goal was reached.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {goal} written leaves, found {written}")]
pub(super) struct GoalMissed {
    written: u64,
    goal: u64,
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

    /// Reports whether a claimed leaf was written as a new leaf.
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
    pub(super) fn outcome(&self) -> Option<Result<(), GoalMissed>> {
        let goal = self.leaves?;
        let written = self.written.load(Ordering::Relaxed);
        Some(if written >= goal {
            Ok(())
        } else {
            Err(GoalMissed { written, goal })
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
        let missed = GoalMissed {
            written: 1,
            goal: 2,
        };
        assert_eq!(goal.outcome(), Some(Err(missed)));
        goal.finish(true);
        goal.reached().await;
        assert_eq!(goal.outcome(), Some(Ok(())));
        let none = WriteGoal::new(None);
        assert!((0..100).all(|_| none.claim()) && none.outcome().is_none());
    }
}
