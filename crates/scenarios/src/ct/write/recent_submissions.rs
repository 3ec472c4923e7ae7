//! Recent submissions, for repetition.

use crate::ct::{Submission, VerifiedSct};
use crate::random::Random;

/// Number of remembered submissions.
const REMEMBERED: usize = 1024;

/// A submission and its first SCT.
#[derive(Clone, Debug)]
pub(super) struct AnsweredSubmission {
    pub(super) submission: Submission,
    pub(super) verified: VerifiedSct,
}

/// The last [`REMEMBERED`] submissions to a log.
#[derive(Debug, Default)]
pub(super) struct RecentSubmissions {
    answered: Vec<AnsweredSubmission>,
    next: usize,
}

impl RecentSubmissions {
    pub(super) fn remember(&mut self, answered: AnsweredSubmission) {
        match self.answered.get_mut(self.next) {
            Some(oldest) => *oldest = answered,
            None => self.answered.push(answered),
        }
        self.next = (self.next + 1) % REMEMBERED;
    }

    pub(super) fn choose(&self, random: &mut Random) -> Option<AnsweredSubmission> {
        let at = random.below(self.answered.len() as u64) as usize;
        self.answered.get(at).cloned()
    }
}
