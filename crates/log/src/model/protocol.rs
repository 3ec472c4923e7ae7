//! The protocol, and what is left of it without one of its guards.

use lucarne_storage::guards::Guard;

use super::place::Place;
use crate::phase::Phase::{
    self, Answer, Commit, Index, Prepare, PublishCheckpoint, PublishTiles, Seal, Sign, Stage,
};
use crate::phase::{RESIGNING, ROUND};

/// The rules that instances go by.
#[derive(Clone, Copy)]
pub(super) struct Protocol {
    /// All instances publish in one bucket, where what is published is durable;
    /// otherwise each has a directory.
    pub(super) in_bucket: bool,
    /// The key is in a process of its own, which remembers what it signed.
    pub(super) is_signed_apart: bool,
    /// The guard that was taken away.
    pub(super) without: Option<Guard>,
}

impl Protocol {
    /// All of it, for directories, signed by who sequences.
    pub(super) const COMPLETE: Protocol = Protocol {
        in_bucket: false,
        is_signed_apart: false,
        without: None,
    };

    pub(super) fn has(self, guard: Guard) -> bool {
        self.without != Some(guard)
    }

    /// Returns whether a checkpoint replaces the one that is known, and no other:
    /// a directory is open in one process at a time.
    pub(super) fn has_condition(self) -> bool {
        self.in_bucket && self.has(Guard::Condition)
    }

    /// Comes after each publication.
    pub(super) fn published(self, place: &mut Place) {
        if self.in_bucket {
            place.settle_files();
        }
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
