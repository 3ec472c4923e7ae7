//! The steps of a round and their order.
//!
//! Both the sequencer and its model (`model.rs`) use these definitions, so that their steps cannot
//! differ.

/// A step of the sequencer. The process may stop between any two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// Takes the open round from the pool.
    Seal,
    /// Encodes the round, and verifies the result.
    Prepare,
    /// Appends the round to the journal, durably.
    Stage,
    /// Signs the tree.
    Sign,
    /// Replaces the checkpoint in the lock by the signed checkpoint.
    Commit,
    /// Publishes tiles and issuers.
    PublishTiles,
    /// Publishes the checkpoint.
    PublishCheckpoint,
    /// Sends the results to waiting submissions.
    Answer,
    /// Adds the round to the dedup index.
    Index,
    /// Syncs the published files and truncates the journal, concurrently with rounds.
    Settle,
}

/// The steps of a round with entries.
pub(crate) const ROUND: &[Phase] = &[
    Phase::Seal,
    Phase::Prepare,
    Phase::Stage,
    Phase::Sign,
    Phase::Commit,
    Phase::PublishTiles,
    Phase::PublishCheckpoint,
    Phase::Answer,
    Phase::Index,
];

/// The steps of signing the same tree again.
pub(crate) const RESIGNING: &[Phase] = &[Phase::Sign, Phase::Commit, Phase::PublishCheckpoint];

/// The steps of the current round so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Progress {
    course: &'static [Phase],
    done: usize,
}

impl Progress {
    /// The state before the first round.
    pub(crate) const NONE: Progress = Progress {
        course: &[],
        done: 0,
    };

    /// Returns the last step; `None` before the first round.
    pub(crate) fn phase(self) -> Option<Phase> {
        self.course.get(self.done.checked_sub(1)?).copied()
    }

    /// Proceeds to this step; returns `None` if the step is not allowed now.
    pub(crate) fn enter(self, phase: Phase) -> Option<Progress> {
        if self.course.get(self.done) == Some(&phase) {
            let done = self.done + 1;
            return Some(Progress { done, ..self });
        }
        // A sealed round without entries ends at once.
        let ended = self.done == self.course.len() || self.phase() == Some(Phase::Seal);
        let course = [ROUND, RESIGNING, &[Phase::Settle]].into_iter();
        let course = course.filter(|_| ended).find(|of| of[0] == phase)?;
        Some(Progress { course, done: 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes(phases: &[Phase]) -> bool {
        let mut progress = Some(Progress::NONE);
        for phase in phases {
            progress = progress.and_then(|progress| progress.enter(*phase));
        }
        progress.is_some()
    }

    #[test]
    fn no_step_is_left_out_and_none_comes_early() {
        let empty = [&[Phase::Seal], RESIGNING].concat();
        let life = [&empty[..], ROUND, &[Phase::Settle], RESIGNING, ROUND].concat();
        assert!(goes(&life));
        for at in 1..ROUND.len() - 1 {
            assert!(!goes(&[&ROUND[..=at], &[Phase::Settle]].concat()));
            let mut without = ROUND.to_vec();
            let left_out = without.remove(at);
            assert!(!goes(&without), "{left_out:?}");
            let mut swapped = ROUND.to_vec();
            swapped.swap(at, at + 1);
            assert!(!goes(&swapped), "{left_out:?}");
        }
    }
}
