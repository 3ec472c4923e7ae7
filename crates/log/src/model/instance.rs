//! A process that sequences the log, or is about to.

use lucarne_storage::guards::Guard;

use super::history::{Leaf, MOST, Note, Tree};
use super::place::{Place, Record};
use super::world::{Bounds, World};
use crate::phase::Phase;

/// The steps of an opening, which `recover.rs` and `catchup.rs` have as functions
/// of these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Opening {
    /// Reads the lock.
    Committed,
    /// Reads the journal.
    Records,
    /// Reads what is published, and judges all three.
    Published,
    /// Publishes what the lock has signed, a round at a time, then its checkpoint.
    Replay,
    /// Opens the dedup index, and adds what it lacks.
    CatchUp,
}

/// The dedup index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Index {
    /// The tree that was indexed.
    pub(super) tree: Tree,
    /// The first entry is known not to be known.
    has_gap: bool,
    /// It is not known, and this neither.
    is_blind: bool,
}

impl Index {
    pub(super) const EMPTY: Index = Index {
        tree: Tree::EMPTY,
        has_gap: false,
        is_blind: false,
    };

    pub(super) fn find(&self, submission: u8) -> Option<usize> {
        let place = self.tree.find(submission);
        place.filter(|place| *place > 0 || !self.has_gap && !self.is_blind)
    }
}

/// A round under way, or the same tree being signed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Round {
    /// `None`: nothing was sealed.
    leaf: Option<Leaf>,
    flipped: bool,
    tree: Tree,
    pub(super) time: u8,
    /// Steps done.
    done: u8,
}

impl Round {
    fn note(&self) -> Note {
        Note {
            tree: self.tree,
            time: self.time,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mode {
    Down,
    Opening(Opening),
    Running,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Instance {
    pub(super) mode: Mode,
    /// The lock's checkpoint, as it believes; while it opens, as it has read it.
    pub(super) committed: Note,
    /// Size that the journal leads on from, and then that publication has reached.
    base: u8,
    /// The published checkpoint that it read or put last.
    last: Option<Note>,
    pub(super) round: Option<Round>,
    pub(super) index: Index,
}

/// The things that a step may read and write.
pub(super) struct Around<'w> {
    pub(super) lock: Note,
    place: &'w mut Place,
    pub(super) told: Told,
}

/// The things that the world is told by a step.
#[derive(Clone, Copy, Default)]
pub(super) struct Told {
    /// A checkpoint, and the one that was there before.
    pub(super) published: Option<(Option<Note>, Note)>,
    /// An SCT: index and entry.
    pub(super) promised: Option<(usize, Leaf)>,
}

impl<'w> Around<'w> {
    pub(super) fn of(world: &World, place: &'w mut Place) -> Self {
        Around {
            lock: world.lock,
            place,
            told: Told::default(),
        }
    }
}

/// The outcome of a step.
pub(super) enum Outcome {
    Done,
    /// The process ends, or the log stops: either way it is opened anew.
    Stopped,
    /// It cannot be taken here.
    Impossible,
}

impl Instance {
    /// One whose index is this.
    pub(super) fn down(index: Index) -> Self {
        Instance {
            mode: Mode::Down,
            committed: Note::FIRST,
            base: 0,
            last: None,
            round: None,
            index,
        }
    }

    /// Takes one step of the opening.
    pub(super) fn open(
        &mut self,
        step: Opening,
        around: &mut Around<'_>,
        rules: &Bounds,
    ) -> Outcome {
        let head = self.committed;
        let place = &mut *around.place;
        self.mode = Mode::Opening(match step {
            Opening::Committed => {
                self.committed = around.lock;
                Opening::Records
            }
            Opening::Records => match place.base(head) {
                Some(base) => {
                    self.base = base as u8;
                    Opening::Published
                }
                None => return Outcome::Stopped,
            },
            Opening::Published => {
                self.last = place.files.checkpoint;
                let from = place.judge(head, self.base.into(), rules.in_bucket);
                let Some(from) = from else {
                    return Outcome::Stopped;
                };
                self.base = from as u8;
                Opening::Replay
            }
            Opening::Replay if usize::from(self.base) < head.tree.size() => {
                self.base += 1;
                place.files.publish_tiles(head.tree.first(self.base.into()));
                rules.published(place);
                Opening::Replay
            }
            Opening::Replay => {
                let is_there = self.last == Some(head);
                if !is_there && !self.publish(head, around, rules) {
                    return Outcome::Stopped;
                }
                Opening::CatchUp
            }
            Opening::CatchUp => {
                if !self.catch_up(head.tree, place, rules) {
                    return Outcome::Stopped;
                }
                (self.base, self.mode) = (0, Mode::Running);
                self.last = self.last.filter(|_| rules.in_bucket);
                return Outcome::Done;
            }
        });
        Outcome::Done
    }

    fn catch_up(&mut self, signed: Tree, place: &Place, rules: &Bounds) -> bool {
        if !signed.goes_on_from(self.index.tree) {
            return false;
        }
        // The data tile at the right edge is read and verified before.
        if place.is_rotten && self.index.tree == Tree::EMPTY && signed.size() > 1 {
            self.index.has_gap = rules.has(Guard::VouchedRebuild);
            self.index.is_blind = !rules.has(Guard::VouchedRebuild);
        }
        self.index.tree = signed;
        true
    }

    /// Returns whether the checkpoint is published: not if another is there than
    /// the last one.
    fn publish(&mut self, note: Note, around: &mut Around<'_>, rules: &Bounds) -> bool {
        let there = around.place.files.checkpoint;
        if rules.has_condition() && there != self.last {
            return false;
        }
        around.told.published = Some((there, note));
        around.place.files.checkpoint = Some(note);
        rules.published(around.place);
        self.last = rules.in_bucket.then_some(note);
        true
    }

    /// The put of a checkpoint that it dies in, and what that is to replace: the
    /// store may take it later.
    pub(super) fn put_under_way(&self, rules: &Bounds) -> Option<(Option<Note>, Note)> {
        let round = self.round?;
        let next = rules
            .protocol
            .course(round.leaf.is_some())
            .get(usize::from(round.done));
        (next == Some(&Phase::PublishCheckpoint)).then(|| (self.last, round.note()))
    }

    /// Returns whether a submission would be sealed: it is nowhere.
    pub(super) fn takes(&self, submission: u8) -> bool {
        let is_idle = self.mode == Mode::Running && self.round.is_none();
        let has_room = self.committed.tree.size() < MOST;
        is_idle && has_room && !self.index.has_gap && self.index.find(submission).is_none()
    }

    /// Begins a round with this entry, or without any.
    pub(super) fn begin(&mut self, leaf: Option<Leaf>, time: u8, flipped: bool) {
        self.round = Some(Round {
            leaf,
            flipped,
            tree: self.committed.tree,
            time,
            done: u8::from(leaf.is_some()), // sealed
        });
    }

    /// The step that comes next.
    pub(super) fn next_step(&self, rules: &Bounds) -> Option<Phase> {
        let round = self.round?;
        let course = rules.protocol.course(round.leaf.is_some());
        course.get(usize::from(round.done)).copied()
    }

    /// Takes a step of the sequencer.
    pub(super) fn step(
        &mut self,
        phase: Phase,
        around: &mut Around<'_>,
        rules: &Bounds,
    ) -> Outcome {
        let Some(mut round) = self.round else {
            return Outcome::Impossible;
        };
        match phase {
            Phase::Seal | Phase::Settle | Phase::Sign => {}
            Phase::Prepare => {
                let leaf = round.leaf.unwrap_or(Leaf::new(0, 0));
                if round.flipped && rules.has(Guard::Verify) {
                    return Outcome::Stopped;
                }
                let flips = std::mem::take(&mut round.flipped);
                let encoded = if flips { leaf.flipped() } else { leaf };
                round.tree = self.committed.tree.with(encoded);
            }
            Phase::Stage => {
                let record = Record {
                    old: self.committed.tree,
                    new: round.tree,
                    synced: rules.has(Guard::Sync) || rules.in_bucket,
                };
                if !around.place.stage(record) {
                    return Outcome::Impossible;
                }
            }
            Phase::Commit if around.lock == self.committed => {
                around.lock = round.note();
                self.committed = around.lock;
            }
            Phase::Commit if rules.has(Guard::Swap) => return Outcome::Stopped,
            Phase::Commit => self.committed = round.note(),
            Phase::PublishTiles => {
                around.place.files.publish_tiles(round.tree);
                rules.published(around.place);
            }
            Phase::PublishCheckpoint => {
                if !self.publish(round.note(), around, rules) {
                    return Outcome::Stopped;
                }
            }
            // Whoever waits signs what he submitted.
            Phase::Answer => {
                let index = round.tree.size().saturating_sub(1);
                around.told.promised = round.leaf.map(|leaf| (index, leaf));
            }
            Phase::Index => self.index.tree = round.tree,
        }
        round.done += 1;
        let ended = usize::from(round.done) == rules.protocol.course(round.leaf.is_some()).len();
        self.round = (!ended).then_some(round);
        Outcome::Done
    }
}
