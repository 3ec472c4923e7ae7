//! Two instances of one log, a lock, and one or two places: all that can happen.

use std::fmt;

use lucarne_storage::guards::Guard;

use super::checker::Machine;
use super::history::{Leaf, Note, Tree};
use super::instance::{Around, Index, Instance, Mode, Opening, Outcome, Told};
use super::place::Place;
use super::protocol::Protocol;
use crate::phase::Phase;

/// A thing that must hold, whatever happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Invariant {
    /// Of any two trees that were published or signed, one begins the other; and
    /// what is published was committed.
    OneHistory,
    /// The checkpoint of a place never goes back, as long as its disk does not.
    AppendOnly,
    /// An SCT is given only for an entry of a published tree.
    NoSctOutside,
    /// A start leads to all that the lock has signed, whatever dies now.
    NoPromiseLost,
    /// No submission has two entries.
    NoEntryTwice,
}

/// The first invariant that did not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Broken(Option<Invariant>);

impl Broken {
    pub(super) fn unless(&mut self, holds: bool, invariant: Invariant) {
        if !holds {
            self.0.get_or_insert(invariant);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) lock: Note,
    /// The second one is a copy of the first, once there is one.
    places: [Place; 2],
    is_copied: bool,
    instances: [Instance; 2],
    /// The time of the last round.
    time: u8,
    /// A put of a checkpoint that was given up, and what it is to replace.
    late: Option<(Option<Note>, Note)>,
    /// The largest tree that was ever published.
    seen: Tree,
    broken: Broken,
}

/// A thing that happens, mostly to instance 0 or 1.
#[derive(Clone, Copy)]
pub(super) enum Action {
    Opening(usize, Opening),
    /// The round of this submission, of which a bit may flip in memory.
    Seal(usize, u8, bool),
    Resign(usize),
    Step(usize, Phase),
    Settle(usize),
    Crash(usize),
    PowerCut(usize, u8),
    Rot(usize),
    LoseIndex(usize),
    Copy,
    /// The put arrives.
    Late,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Opening(i, step) => write!(f, "instance {i} opens the log: {step:?}"),
            Action::Seal(i, n, false) => write!(f, "instance {i}: Seal submission {n}"),
            Action::Seal(i, n, true) => {
                write!(f, "instance {i}: Seal submission {n}, of which a bit flips")
            }
            Action::Resign(i) => write!(f, "instance {i} begins to sign its tree anew"),
            Action::Step(i, phase) => write!(f, "instance {i}: {phase:?}"),
            Action::Settle(i) => write!(f, "instance {i}: Settle"),
            Action::Crash(i) => write!(f, "instance {i} is killed"),
            Action::PowerCut(i, lost) => {
                write!(f, "the power of instance {i} fails, which takes {lost:#b}")
            }
            Action::Rot(i) => write!(f, "the first data tile of place {i} rots"),
            Action::LoseIndex(i) => write!(f, "instance {i} loses its dedup index"),
            Action::Copy => write!(f, "the directory of instance 0 is copied for instance 1"),
            Action::Late => write!(f, "the put of a dead process arrives"),
        }
    }
}

/// Is told an action and how it changes the world, or that it cannot be.
type Happens<'h> = dyn FnMut(Action, &dyn Fn(&mut World) -> bool) + 'h;

/// The protocol, and how much may happen under it.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) protocol: Protocol,
    /// All instances publish in one bucket, where what is published is durable;
    /// otherwise each has a directory.
    pub(super) in_bucket: bool,
    /// Rounds and new signatures, of both instances together.
    pub(super) rounds: u8,
    /// Submissions that there are.
    pub(super) submissions: u8,
    pub(super) instances: usize,
    /// Memory, tiles and indexes may go bad, and the power may fail.
    pub(super) faults: bool,
}

impl Machine for Bounds {
    type State = World;
    type Action = Action;
    type Invariant = Invariant;

    fn initial(&self) -> World {
        World {
            lock: Note::FIRST,
            places: [Place::NEW; 2],
            is_copied: false,
            instances: [Instance::down(Index::EMPTY); 2],
            time: 0,
            late: None,
            seen: Tree::EMPTY,
            broken: Broken::default(),
        }
    }

    fn each(&self, world: &World, next: &mut dyn FnMut(Action, World)) {
        for i in 0..self.instances {
            if i == 0 || self.in_bucket || world.is_copied {
                self.each_of(world, i, next);
            }
        }
        if self.instances > 1 && !self.in_bucket && !world.is_copied {
            let mut copied = *world;
            copied.places[1] = world.places[0];
            copied.instances[1].index = world.instances[0].index;
            copied.is_copied = true;
            next(Action::Copy, copied);
        }
        if let Some((old, new)) = world.late {
            let mut arrived = *world;
            arrived.late = None;
            if !self.has_condition() || arrived.places[0].files.checkpoint == old {
                let there = arrived.places[0].files.checkpoint.replace(new);
                arrived.places[0].settle_files();
                arrived.is_published(there, new);
            }
            next(Action::Late, arrived);
        }
    }

    fn broken(&self, world: &World) -> Option<Invariant> {
        let mut broken = world.broken;
        broken.unless(
            world.lock.tree.goes_on_from(world.seen),
            Invariant::OneHistory,
        );
        broken.unless(!world.lock.tree.repeats(), Invariant::NoEntryTwice);
        for instance in &world.instances {
            let index = &instance.index;
            // Whoever submits it again gets an SCT for where the index has it. (That
            // `submit.rs` holds it against the tree first, nothing here relies on.)
            let published = |at| world.seen.goes_on_from(index.tree.first(at + 1));
            let proves = |n| index.find(n).is_none_or(published);
            let running = instance.mode == Mode::Running;
            broken.unless(!running || (1..=3).all(proves), Invariant::NoSctOutside);
        }
        let goes_on = (0..self.instances).any(|i| self.can_be_opened(world, i));
        broken.unless(goes_on, Invariant::NoPromiseLost);
        broken.0
    }
}

impl Bounds {
    pub(super) fn has(&self, guard: Guard) -> bool {
        self.protocol.has(guard)
    }

    /// Returns whether a checkpoint replaces the one that is known, and no other:
    /// a directory is open in one process at a time.
    pub(super) fn has_condition(&self) -> bool {
        self.in_bucket && self.has(Guard::Condition)
    }

    /// Comes after each publication.
    pub(super) fn published(&self, place: &mut Place) {
        if self.in_bucket {
            place.settle_files();
        }
    }

    fn each_of(&self, world: &World, i: usize, next: &mut dyn FnMut(Action, World)) {
        let instance = &world.instances[i];
        let at = self.place_of(i);
        let mut happens = |action, change: &dyn Fn(&mut World) -> bool| {
            let mut changed = *world;
            if change(&mut changed) {
                next(action, changed);
            }
        };
        match instance.mode {
            Mode::Down => {
                let step = Opening::Committed;
                happens(Action::Opening(i, step), &|world| self.open(world, i, step));
            }
            Mode::Opening(step) => {
                happens(Action::Opening(i, step), &|world| self.open(world, i, step));
            }
            Mode::Running => self.each_step(world, i, &mut happens),
        }
        if instance.mode != Mode::Down {
            happens(Action::Crash(i), &|world| {
                self.crash(world, i);
                true
            });
        }
        if !self.faults {
            return;
        }
        if !self.in_bucket {
            let at_risk = world.places[at].at_risk();
            for lost in (0..=at_risk).filter(|lost| lost & !at_risk == 0) {
                happens(Action::PowerCut(i, lost), &|world| {
                    self.crash(world, i);
                    world.places[at].fail_power(lost);
                    true
                });
            }
        }
        happens(Action::Rot(i), &|world| {
            let has_first = world.places[at].files.tile(1) != Tree::EMPTY;
            has_first && !std::mem::replace(&mut world.places[at].is_rotten, true)
        });
        if instance.mode == Mode::Down && instance.index != Index::EMPTY {
            happens(Action::LoseIndex(i), &|world| {
                world.instances[i].index = Index::EMPTY;
                true
            });
        }
    }

    fn each_step(&self, world: &World, i: usize, happens: &mut Happens<'_>) {
        let instance = &world.instances[i];
        let at = self.place_of(i);
        // It runs beside the rounds; what it cuts was published before it began.
        happens(Action::Settle(i), &|world| {
            let size = match &world.instances[i].round {
                None => world.instances[i].committed.tree.size(),
                Some(_) => world.instances[i].index.tree.size(),
            };
            world.places[at].settle(size);
            true
        });
        if let Some(phase) = instance.next_step(self) {
            happens(Action::Step(i, phase), &|world| self.step(world, i, phase));
            return;
        }
        if world.time == self.rounds {
            return;
        }
        happens(Action::Resign(i), &|world| {
            world.time += 1;
            world.instances[i].begin(None, world.time, false);
            self.own_steps(world, i)
        });
        for submission in (1..=self.submissions).filter(|n| instance.takes(*n)) {
            for flips in [false, true]
                .into_iter()
                .filter(|flips| self.faults || !flips)
            {
                happens(Action::Seal(i, submission, flips), &|world| {
                    world.time += 1;
                    let leaf = Leaf::new(submission, world.time);
                    world.instances[i].begin(Some(leaf), world.time, flips);
                    self.own_steps(world, i)
                });
            }
        }
    }

    fn place_of(&self, i: usize) -> usize {
        if self.in_bucket { 0 } else { i }
    }

    fn open(&self, world: &mut World, i: usize, step: Opening) -> bool {
        let (mut instance, mut place) = (world.instances[i], world.places[self.place_of(i)]);
        let mut around = Around::of(world, &mut place);
        let outcome = instance.open(step, &mut around, self);
        let (lock, told) = (around.lock, around.told);
        self.take_over(world, i, (instance, place, lock), told);
        self.goes_on(world, i, &outcome)
    }

    /// Takes a step, and those after it in the process's own memory: a crash after
    /// them leaves what one before them does.
    fn step(&self, world: &mut World, i: usize, phase: Phase) -> bool {
        let (mut instance, mut place) = (world.instances[i], world.places[self.place_of(i)]);
        let mut around = Around::of(world, &mut place);
        let outcome = instance.step(phase, &mut around, self);
        let (lock, told) = (around.lock, around.told);
        self.take_over(world, i, (instance, place, lock), told);
        self.goes_on(world, i, &outcome) && self.own_steps(world, i)
    }

    fn own_steps(&self, world: &mut World, i: usize) -> bool {
        match world.instances[i].next_step(self) {
            Some(next @ (Phase::Prepare | Phase::Sign)) => self.step(world, i, next),
            _ => true,
        }
    }

    fn take_over(
        &self,
        world: &mut World,
        i: usize,
        (instance, place, lock): (Instance, Place, Note),
        told: Told,
    ) {
        world.instances[i] = instance;
        world.places[self.place_of(i)] = place;
        let grows = lock.tree.goes_on_from(world.lock.tree);
        world.broken.unless(grows, Invariant::OneHistory);
        world.lock = lock;
        if let Some((there, new)) = told.published {
            world.is_published(there, new);
        }
        if let Some((index, leaf)) = told.promised {
            let holds = world.seen.leaf(index) == leaf;
            world.broken.unless(holds, Invariant::NoSctOutside);
        }
    }

    /// Returns whether what was tried has happened.
    fn goes_on(&self, world: &mut World, i: usize, outcome: &Outcome) -> bool {
        if matches!(outcome, Outcome::Stopped) {
            world.instances[i] = Instance::down(world.instances[i].index);
        }
        !matches!(outcome, Outcome::Impossible)
    }

    fn crash(&self, world: &mut World, i: usize) {
        let instance = &world.instances[i];
        if self.in_bucket {
            world.late = world.late.or(instance.put_under_way(self));
        }
        world.instances[i] = Instance::down(instance.index);
    }

    /// Returns whether a start of this instance would go on, if all were dead now.
    fn can_be_opened(&self, world: &World, i: usize) -> bool {
        let mut place = world.places[self.place_of(i)];
        let mut instance = Instance::down(world.instances[i].index);
        let mut step = Opening::Committed;
        loop {
            let opened = instance.open(step, &mut Around::of(world, &mut place), self);
            match (opened, instance.mode) {
                (Outcome::Done, Mode::Opening(next)) => step = next,
                (Outcome::Done, Mode::Running) => return true,
                _ => return false,
            }
        }
    }
}

impl World {
    /// A checkpoint took the place of another.
    fn is_published(&mut self, there: Option<Note>, new: Note) {
        let goes_back = there.is_some_and(|there| !new.tree.goes_on_from(there.tree));
        let is_ours = new.tree.goes_on_from(self.seen) || self.seen.goes_on_from(new.tree);
        self.broken.unless(is_ours, Invariant::OneHistory);
        self.broken.unless(!goes_back, Invariant::AppendOnly);
        if new.tree.size() > self.seen.size() {
            self.seen = new.tree;
        }
    }
}
