//! A process that sequences the log, or opens it in order to sequence.

use super::history::{Leaf, MOST, Note, Tree};
use super::place::{Place, Record};
use super::protocol::{Guard, Protocol};
use crate::sequence::phase::Phase;

/// The steps of an opening. `supervise.rs`, `recover.rs` and `catchup.rs` have a function for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Opening {
    /// Requests the last tree head of the separate signer.
    LastSigned,
    /// Reads the lock.
    Committed,
    /// Reads the journal.
    Records,
    /// Reads the published files, and compares them with lock and journal.
    Published,
    /// Commits the tree head that the signer has signed after the head in the lock.
    CommitSigned,
    /// Publishes the rounds up to the tree in the lock, one at a time, then its checkpoint.
    Replay,
    /// Proves to the signer that the log extends the tree that the signer remembers.
    Remind,
    /// Opens the dedup index. Its missing entries are read later.
    CatchUp,
}

/// The dedup index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Index {
    /// The tree that was indexed.
    pub(super) tree: Tree,
    /// The index lacks the first entry, and has recorded this.
    has_gap: bool,
    /// The index lacks the first entry, and has not recorded this.
    is_blind: bool,
    /// Bit set of the entries that were not yet read from the tiles.
    unread: u8,
}

impl Index {
    pub(super) const EMPTY: Index = Index {
        tree: Tree::EMPTY,
        has_gap: false,
        is_blind: false,
        unread: 0,
    };

    pub(super) fn find(&self, submission: u8) -> Option<usize> {
        let place = self.tree.find(submission);
        let place = place.filter(|place| self.unread & 1 << place == 0);
        place.filter(|place| *place > 0 || !self.has_gap && !self.is_blind)
    }

    /// Returns whether the index has recorded that entries are missing.
    fn lacks(&self) -> bool {
        self.has_gap || self.unread != 0
    }

    /// Loses the newest entry, which was only in memory; returns `false` if no such entry exists.
    pub(super) fn lose_newest(&mut self) -> bool {
        let known = (0..self.tree.size()).rev();
        let mut known = known.filter(|at| self.unread & 1 << at == 0);
        let newest = known.next().filter(|at| self.unread >> at == 0);
        newest.inspect(|at| self.unread |= 1 << at).is_some()
    }
}

/// A round under way, or a new signature of the same tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Round {
    /// The entry of the round; `None` for a new signature of the same tree.
    leaf: Option<Leaf>,
    flipped: bool,
    tree: Tree,
    pub(super) time: u8,
    /// Number of completed steps.
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
    /// The checkpoint that this process has read from the lock, or written to it, last.
    pub(super) committed: Note,
    /// The last tree head of the signer, during an opening.
    remembered: Note,
    /// First the size at which the journal begins, then the published size. Only used during an
    /// opening.
    base: u8,
    /// The published checkpoint that this process read or wrote last.
    last: Option<Note>,
    pub(super) round: Option<Round>,
    pub(super) index: Index,
}

/// The surroundings of an instance, which a step reads and writes.
pub(super) struct Around<'w> {
    pub(super) lock: Note,
    /// The last tree head of the separate signer.
    pub(super) signed: Note,
    place: &'w mut Place,
    pub(super) told: Told,
}

/// The events of a step that the invariants restrict.
#[derive(Clone, Copy, Default)]
pub(super) struct Told {
    /// A publication: the former checkpoint and the new checkpoint.
    pub(super) published: Option<(Option<Note>, Note)>,
    /// An SCT: index and entry.
    pub(super) promised: Option<(usize, Leaf)>,
}

impl<'w> Around<'w> {
    /// Creates surroundings with these notes of the lock and the signer, and this storage.
    pub(super) fn of((lock, signed): (Note, Note), place: &'w mut Place) -> Self {
        Around {
            lock,
            signed,
            place,
            told: Told::default(),
        }
    }

    /// Returns the notes of the lock and of the signer.
    pub(super) fn noted(&self) -> (Note, Note) {
        (self.lock, self.signed)
    }

    /// Requests a signature from the separate signer, with a proof that the tree extends `from`;
    /// returns whether the signer signs. (`Guard::may_sign`)
    fn sign(&mut self, note: Note, from: Tree) -> bool {
        let is_shown = self.signed.tree == from && note.tree.goes_on_from(from);
        let signs = is_shown && note.time > self.signed.time;
        if signs {
            self.signed = note;
        }
        signs
    }
}

/// The outcome of a step.
pub(super) enum Outcome {
    Done,
    /// The process ends, or the log stops. In both cases the log is opened again.
    Stopped,
    /// The step is impossible in this state.
    Impossible,
}

impl Instance {
    /// Returns a process that is not running, and has this index.
    pub(super) fn down(index: Index) -> Self {
        Instance {
            mode: Mode::Down,
            committed: Note::FIRST,
            remembered: Note::FIRST,
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
        rules: Protocol,
    ) -> Outcome {
        let head = self.committed;
        let next = match step {
            Opening::LastSigned => {
                self.remembered = around.signed;
                Some(Opening::Committed)
            }
            Opening::Committed => {
                self.committed = around.lock;
                Some(Opening::Records)
            }
            Opening::Records => self.read_records(around.place, rules),
            Opening::Published => self.read_published(around.place, rules),
            Opening::CommitSigned if around.lock == head => {
                self.committed = self.newest(rules);
                around.lock = self.committed;
                Some(Opening::Replay)
            }
            Opening::CommitSigned => None,
            Opening::Replay if usize::from(self.base) < head.tree.size() => {
                self.base += 1;
                let replayed = head.tree.first(self.base.into());
                around.place.files.publish_tiles(replayed);
                rules.published(around.place);
                Some(Opening::Replay)
            }
            Opening::Replay => self.end_replay(around, rules),
            Opening::Remind => self.remind(around),
            Opening::CatchUp => return self.end_opening(rules),
        };
        let Some(next) = next else {
            return Outcome::Stopped;
        };
        self.mode = Mode::Opening(next);
        Outcome::Done
    }

    /// Finds the tree at which the rounds of the journal begin.
    fn read_records(&mut self, place: &Place, rules: Protocol) -> Option<Opening> {
        let base = place.base(self.committed, self.newest(rules))?;
        self.base = base as u8;
        Some(Opening::Published)
    }

    /// Compares the published checkpoint with the head of the lock.
    fn read_published(&mut self, place: &Place, rules: Protocol) -> Option<Opening> {
        let head = self.committed;
        self.last = place.files.checkpoint;
        let from = place.judge(head, self.base.into(), rules.in_bucket)?;
        self.base = from as u8;
        if self.newest(rules) == head {
            Some(Opening::Replay)
        } else {
            Some(Opening::CommitSigned)
        }
    }

    /// Publishes the checkpoint of the lock after all rounds.
    fn end_replay(&mut self, around: &mut Around<'_>, rules: Protocol) -> Option<Opening> {
        let head = self.committed;
        let is_there = self.last == Some(head);
        if !is_there && !self.publish(head, around, rules) {
            None
        } else if rules.is_signed_apart {
            Some(Opening::Remind)
        } else {
            Some(Opening::CatchUp)
        }
    }

    /// Proves the growth of the log to a signer with an older tree.
    fn remind(&mut self, around: &mut Around<'_>) -> Option<Opening> {
        let head = self.committed;
        let is_behind = self.remembered.tree.size() < head.tree.size();
        if is_behind && !around.sign(head, self.remembered.tree) {
            return None;
        }
        self.remembered = Note::FIRST;
        Some(Opening::CatchUp)
    }

    /// Extends the index to the tree, and begins to sequence.
    fn end_opening(&mut self, rules: Protocol) -> Outcome {
        if !self.catch_up(self.committed.tree) {
            return Outcome::Stopped;
        }
        (self.base, self.mode) = (0, Mode::Running);
        self.last = self.last.filter(|_| rules.in_bucket);
        Outcome::Done
    }

    /// Returns the head of the lock, or a newer head that the signer has signed.
    /// (`ahead::newest`)
    fn newest(&self, rules: Protocol) -> Note {
        let (committed, signed) = (self.committed, self.remembered);
        let grew = signed.tree.size() >= committed.tree.size() && signed.tree != committed.tree;
        let anew = signed.tree == committed.tree && signed.time > committed.time;
        if rules.is_signed_apart && (grew || anew) {
            signed
        } else {
            committed
        }
    }

    /// Extends the index to the tree of a follower, which reads all new entries at once; returns
    /// `false` if this tree does not extend the indexed tree.
    pub(super) fn follow(&mut self, tree: Tree) -> bool {
        let extends = tree.goes_on_from(self.index.tree);
        if extends {
            self.index.tree = tree;
        }
        extends
    }

    /// Returns whether a round with this submission is under way.
    pub(super) fn is_sequencing(&self, submission: u8) -> bool {
        let leaf = self.round.and_then(|round| round.leaf);
        leaf.is_some_and(|leaf| leaf.is(submission))
    }

    fn catch_up(&mut self, signed: Tree) -> bool {
        if !signed.goes_on_from(self.index.tree) {
            return false;
        }
        let lacking = self.index.tree.size()..signed.size();
        lacking.for_each(|at| self.index.unread |= 1 << at);
        self.index.tree = signed;
        true
    }

    /// Reads the newest missing entry of the index; returns `false` if none is missing.
    pub(super) fn read(&mut self, place: &Place, rules: Protocol) -> bool {
        let Some(newest) = self.index.unread.checked_ilog2() else {
            return false;
        };
        self.index.unread ^= 1 << newest;
        // The opening has read and verified the data tile at the right edge.
        if newest == 0 && place.is_rotten && self.index.tree.size() > 1 {
            self.index.has_gap = rules.has(Guard::VouchedRebuild);
            self.index.is_blind = !rules.has(Guard::VouchedRebuild);
        }
        true
    }

    /// Publishes a checkpoint; returns `false` if the published checkpoint is not the last
    /// checkpoint that this process knows.
    fn publish(&mut self, note: Note, around: &mut Around<'_>, rules: Protocol) -> bool {
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

    /// Returns the put of a checkpoint that is under way: the former checkpoint and the new
    /// checkpoint. The store may apply the put after the end of the process.
    pub(super) fn put_under_way(&self, rules: Protocol) -> Option<(Option<Note>, Note)> {
        let round = self.round?;
        let next = rules
            .course(round.leaf.is_some())
            .get(usize::from(round.done));
        (next == Some(&Phase::PublishCheckpoint)).then(|| (self.last, round.note()))
    }

    /// Returns whether a round with this submission may begin.
    pub(super) fn takes(&self, submission: u8, rules: Protocol) -> bool {
        let is_idle = self.mode == Mode::Running && self.round.is_none();
        let has_room = self.committed.tree.size() < MOST;
        let is_told = !self.index.lacks() || !rules.has(Guard::UnknownRefused);
        is_idle && has_room && is_told && self.index.find(submission).is_none()
    }

    /// Begins a round with this entry, or without an entry.
    pub(super) fn begin(&mut self, leaf: Option<Leaf>, time: u8, flipped: bool) {
        self.round = Some(Round {
            leaf,
            flipped,
            tree: self.committed.tree,
            time,
            done: u8::from(leaf.is_some()), // sealed
        });
    }

    pub(super) fn next_step(&self, rules: Protocol) -> Option<Phase> {
        let round = self.round?;
        let course = rules.course(round.leaf.is_some());
        course.get(usize::from(round.done)).copied()
    }

    /// Encodes the entry of a round. A flipped bit changes the encoded entry.
    fn prepare(&self, round: &mut Round) {
        let leaf = round.leaf.unwrap_or(Leaf::new(0, 0));
        let flips = std::mem::take(&mut round.flipped);
        let encoded = if flips { leaf.flipped() } else { leaf };
        round.tree = self.committed.tree.with(encoded);
    }

    /// Takes a step of the sequencer.
    pub(super) fn step(
        &mut self,
        phase: Phase,
        around: &mut Around<'_>,
        rules: Protocol,
    ) -> Outcome {
        let Some(mut round) = self.round else {
            return Outcome::Impossible;
        };
        match phase {
            Phase::Sign if rules.is_signed_apart => {
                if !around.sign(round.note(), self.committed.tree) {
                    return Outcome::Stopped;
                }
            }
            Phase::Seal | Phase::Settle | Phase::Sign => {}
            Phase::Prepare => {
                if round.flipped && rules.has(Guard::Verify) {
                    return Outcome::Stopped;
                }
                self.prepare(&mut round);
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
            // A signer that has forgotten the tree signs no SCT for its entries.
            Phase::Answer
                if rules.is_signed_apart && !around.signed.tree.goes_on_from(round.tree) => {}
            // The SCT is for the submission, not for the encoded entry.
            Phase::Answer => {
                let index = round.tree.size().saturating_sub(1);
                around.told.promised = round.leaf.map(|leaf| (index, leaf));
            }
            Phase::Index => self.index.tree = round.tree,
        }
        round.done += 1;
        let ended = usize::from(round.done) == rules.course(round.leaf.is_some()).len();
        self.round = (!ended).then_some(round);
        Outcome::Done
    }
}
