//! The protocol, complete or without one of its guards.

use super::place::Place;
use crate::sequence::phase::Phase::{
    self, Answer, Commit, Index, Prepare, PublishCheckpoint, PublishTiles, Seal, Sign, Stage,
};
use crate::sequence::phase::{RESIGNING, ROUND};

/// A rule that keeps a promise of the log when something fails. `cargo xtask guards` removes the
/// same rules from the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// A round counts as staged only after it is durable.
    Sync,
    /// No file of a round is published before its commit.
    CommitFirst,
    /// Submitters get a response only after the checkpoint is published.
    AnswerLast,
    /// An instance stops if its swap in the lock fails.
    Swap,
    /// The dedup index gets a round only after it is published.
    IndexLast,
    /// A round is read back, and its root is computed in a second way, before the root is signed.
    Verify,
    /// The published checkpoint is replaced only by a process that knows its current value.
    Condition,
    /// The dedup index is rebuilt only from entries that the tree covers.
    VouchedRebuild,
    /// A submission is refused if it may be among entries that the dedup index does not know.
    UnknownRefused,
}

impl Guard {
    pub(super) const ALL: [Guard; 9] = [
        Guard::Sync,
        Guard::CommitFirst,
        Guard::AnswerLast,
        Guard::Swap,
        Guard::IndexLast,
        Guard::Verify,
        Guard::Condition,
        Guard::VouchedRebuild,
        Guard::UnknownRefused,
    ];
}

/// The rules of all instances.
#[derive(Clone, Copy)]
pub(super) struct Protocol {
    /// All instances publish in one bucket, where published objects are durable at once. Otherwise
    /// each instance has a directory.
    pub(super) in_bucket: bool,
    /// A separate process has the key, and remembers the last tree head that it signed.
    pub(super) is_signed_apart: bool,
    /// The guard that is disabled.
    pub(super) without: Option<Guard>,
}

impl Protocol {
    /// The complete protocol for directories, without a separate signer.
    pub(super) const COMPLETE: Protocol = Protocol {
        in_bucket: false,
        is_signed_apart: false,
        without: None,
    };

    pub(super) fn has(self, guard: Guard) -> bool {
        self.without != Some(guard)
    }

    /// Returns whether a checkpoint replaces only the checkpoint that the process has read. A
    /// directory is open in one process at a time, and does not need this condition.
    pub(super) fn has_condition(self) -> bool {
        self.in_bucket && self.has(Guard::Condition)
    }

    /// Applies the durability of the storage after a publication.
    pub(super) fn published(self, place: &mut Place) {
        if self.in_bucket {
            place.settle_files();
        }
    }

    /// Returns the steps of a round, or of a new signature of the same tree.
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

/// A rule for several instances of one log. Only the model can disable these rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstanceRule {
    /// A follower writes no checkpoint to the lock and nothing to the bucket, even when it opens
    /// the log.
    ReadOnly,
    /// A follower reads the published checkpoint before the lock, and compares both.
    ReadOrder,
    /// A follower refuses a checkpoint that is older than its own tree.
    NoStaleView,
    /// A follower signs an SCT only if its own tree has the entry at the place in the response.
    Prove,
    /// A leader looks for a forwarded entry, although the follower has already looked for it.
    LookAgain,
    /// An entry joins the pool only if no round has left the pool since the lookup.
    SameEpoch,
    /// A new leader has the recovered tree in its index before it accepts entries.
    IndexFirst,
}

impl InstanceRule {
    pub(super) const ALL: [InstanceRule; 7] = [
        InstanceRule::ReadOnly,
        InstanceRule::ReadOrder,
        InstanceRule::NoStaleView,
        InstanceRule::Prove,
        InstanceRule::LookAgain,
        InstanceRule::SameEpoch,
        InstanceRule::IndexFirst,
    ];
}
