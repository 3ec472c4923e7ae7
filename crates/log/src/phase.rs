//! The steps of a round by name, and the order they come in.
//!
//! The sequencer goes through them, and so does its model (`model.rs`): the order
//! is written here once, and neither can have a step that the other has not.

/// A step of the sequencer. Between any two of them the process may die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// Takes the open round from the pool.
    Seal,
    /// Encodes the round, and verifies what was encoded.
    Prepare,
    /// Appends the round to the journal, durably.
    Stage,
    /// Signs the tree.
    Sign,
    /// Swaps what was signed into the lock.
    Commit,
    /// Publishes tiles and issuers.
    PublishTiles,
    /// Publishes the checkpoint.
    PublishCheckpoint,
    /// Answers those who wait.
    Answer,
    /// Hands the round to the dedup index.
    Index,
    /// Makes durable what is published, and cuts the journal: beside the rounds.
    Settle,
}

/// A round that has entries.
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

/// The same tree, signed anew.
pub(crate) const RESIGNING: &[Phase] = &[Phase::Sign, Phase::Commit, Phase::PublishCheckpoint];

/// The way that a sequencer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Progress {
    course: &'static [Phase],
    done: usize,
}

impl Progress {
    /// Before the first round.
    pub(crate) const NONE: Progress = Progress {
        course: &[],
        done: 0,
    };

    /// The step that was entered last.
    pub(crate) fn phase(self) -> Option<Phase> {
        self.course.get(self.done.checked_sub(1)?).copied()
    }

    /// Goes on to this step, if it is one that may come now.
    pub(crate) fn enter(self, phase: Phase) -> Option<Progress> {
        if self.course.get(self.done) == Some(&phase) {
            let done = self.done + 1;
            return Some(Progress { done, ..self });
        }
        // A round that was sealed empty is none.
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
