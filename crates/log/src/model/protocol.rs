//! The protocol, and what is left of it without one of its guards.

use lucarne_storage::guards::Guard;

use crate::phase::Phase::{
    self, Answer, Commit, Index, Prepare, PublishCheckpoint, PublishTiles, Seal, Sign, Stage,
};
use crate::phase::{RESIGNING, ROUND};

/// The rules that instances go by.
#[derive(Clone, Copy)]
pub(super) struct Protocol {
    /// The guard that was taken away.
    pub(super) without: Option<Guard>,
}

impl Protocol {
    pub(super) const COMPLETE: Protocol = Protocol { without: None };

    pub(super) fn has(self, guard: Guard) -> bool {
        self.without != Some(guard)
    }

    /// The steps of a round, or of signing the same tree anew.
    #[rustfmt::skip]
    pub(super) fn course(self, has_entries: bool) -> &'static [Phase] {
        match self.without {
            _ if !has_entries => RESIGNING,
            Some(Guard::CommitFirst) => &[
                Seal, Prepare, Stage, Sign, PublishTiles, Commit, PublishCheckpoint, Answer, Index,
            ],
            Some(Guard::AnswerLast) => &[
                Seal, Prepare, Stage, Sign, Commit, Answer, PublishTiles, PublishCheckpoint, Index,
            ],
            Some(Guard::IndexLast) => &[
                Seal, Prepare, Stage, Sign, Commit, Index, PublishTiles, PublishCheckpoint, Answer,
            ],
            _ => ROUND,
        }
    }
}
