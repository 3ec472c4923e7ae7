//! Two processes that sequence one log, with one lock and one or two storages, and all faults.

use std::fmt;

use super::checker::Machine;
use super::history::{Leaf, Note, Tree};
use super::instance::{Around, Index, Instance, Mode, Opening, Outcome, Told};
use super::place::Place;
use super::protocol::Protocol;
use crate::sequence::phase::Phase;

/// A property of every reachable state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Invariant {
    /// Any two published or committed trees extend each other. Every published tree was committed.
    OneHistory,
    /// A published checkpoint is replaced only by a checkpoint of a tree that extends its tree.
    AppendOnly,
    /// An SCT has the index and the time of its entry in a published tree.
    NoSctOutside,
    /// A start after the end of all processes publishes the tree in the lock.
    NoPromiseLost,
    /// No submission has two entries.
    NoEntryTwice,
    /// Only an instance that leads writes to the lock or to the storage.
    OnlyLeaderWrites,
    /// Each tree that an instance shows to readers extends all trees that it has shown before.
    NoViewBack,
    /// A follower does not report a rollback if there was none.
    NoFalseAlarm,
}

/// The first invariant that was violated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Broken(Option<Invariant>);

impl Broken {
    pub(super) fn unless(&mut self, holds: bool, invariant: Invariant) {
        if !holds {
            self.0.get_or_insert(invariant);
        }
    }

    pub(super) fn first(self) -> Option<Invariant> {
        self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) lock: Note,
    /// The last note that the separate signer has signed and remembers.
    pub(super) signed: Note,
    /// The storages. The second storage is a copy of the first, unless both instances share a
    /// bucket.
    places: [Place; 2],
    is_copied: bool,
    instances: [Instance; 2],
    /// The time of the last round.
    time: u8,
    /// A write of a checkpoint that may arrive after its process has ended or has continued: the
    /// former checkpoint and the new checkpoint.
    late: Option<(Option<Note>, Note)>,
    /// The largest tree that was ever published.
    seen: Tree,
    backup: Option<Backup>,
    /// Number of restored backups.
    restores: u8,
    /// A backup of lock and data was restored.
    is_rolled_back: bool,
    broken: Broken,
}

/// Backups of instance 0 and of the signer, created at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Backup {
    lock: Note,
    place: Place,
    index: Index,
    signed: Note,
}

/// An action, mostly of instance 0 or 1.
#[derive(Clone, Copy)]
pub(super) enum Action {
    Opening(usize, Opening),
    /// A round with this submission. If `true`, a bit of the entry flips in memory.
    Seal(usize, u8, bool),
    Resign(usize),
    Step(usize, Phase),
    Settle(usize),
    Crash(usize),
    PowerCut(usize, u8),
    Rot(usize),
    LoseIndex(usize),
    /// The index lacks an entry that was only in memory before a crash.
    LoseNewest(usize),
    /// The index reads an entry from its tile.
    Read(usize),
    Copy,
    /// Adds cosignatures to the published checkpoint, which has the same tree and time. The write
    /// may arrive later, because the next round does not wait for it.
    Cosign(usize),
    /// A delayed write arrives.
    Late,
    BackUp,
    /// Restores lock, data and index from the backup.
    RollBack,
    /// Restores the memory of the signer from the backup.
    Forget,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Opening(i, step) => write!(f, "instance {i} opens the log: {step:?}"),
            Action::Seal(i, n, false) => write!(f, "instance {i}: Seal submission {n}"),
            Action::Seal(i, n, true) => {
                write!(f, "instance {i}: Seal submission {n}, of which a bit flips")
            }
            Action::Resign(i) => write!(f, "instance {i} begins to sign its tree again"),
            Action::Step(i, phase) => write!(f, "instance {i}: {phase:?}"),
            Action::Settle(i) => write!(f, "instance {i}: Settle"),
            Action::Crash(i) => write!(f, "instance {i} is killed"),
            Action::PowerCut(i, lost) => {
                write!(f, "the power of instance {i} fails, which takes {lost:#b}")
            }
            Action::Rot(i) => write!(f, "the first data tile of place {i} rots"),
            Action::LoseIndex(i) => write!(f, "instance {i} loses its dedup index"),
            Action::LoseNewest(i) => {
                write!(f, "the dedup index of instance {i} loses its newest entry")
            }
            Action::Read(i) => write!(f, "instance {i} reads an entry for its dedup index"),
            Action::Copy => write!(f, "the directory of instance 0 is copied for instance 1"),
            Action::Cosign(i) => write!(f, "instance {i} publishes cosignatures"),
            Action::Late => write!(f, "a delayed write arrives"),
            Action::BackUp => write!(f, "a backup is created"),
            Action::RollBack => write!(f, "lock, data and index are restored from the backup"),
            Action::Forget => write!(f, "the signer's memory is restored from the backup"),
        }
    }
}

/// A callback for an action and its change. The change returns whether the action is possible.
type Happens<'h> = dyn FnMut(Action, &dyn Fn(&mut World) -> bool) + 'h;

/// The protocol, and the bounds of an exploration.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) protocol: Protocol,
    /// Maximum number of rounds and new signatures of both instances together.
    pub(super) rounds: u8,
    /// Number of different submissions.
    pub(super) submissions: u8,
    pub(super) instances: usize,
    /// Memory, tiles and indexes may be damaged, and the power may fail.
    pub(super) faults: bool,
    /// Maximum number of restored backups.
    pub(super) restores: u8,
}

impl Machine for Bounds {
    type State = World;
    type Action = Action;
    type Invariant = Invariant;

    fn initial(&self) -> World {
        World {
            lock: Note::FIRST,
            signed: Note::FIRST,
            places: [Place::NEW; 2],
            is_copied: false,
            instances: [Instance::down(Index::EMPTY); 2],
            time: 0,
            late: None,
            seen: Tree::EMPTY,
            backup: None,
            restores: 0,
            is_rolled_back: false,
            broken: Broken::default(),
        }
    }

    fn each(&self, world: &World, next: &mut dyn FnMut(Action, World)) {
        for i in 0..self.instances {
            if i == 0 || self.protocol.in_bucket || world.is_copied {
                self.each_of(world, i, next);
            }
        }
        if self.instances > 1 && !self.protocol.in_bucket && !world.is_copied {
            let mut copied = *world;
            copied.places[1] = world.places[0];
            copied.instances[1].index = world.instances[0].index;
            copied.is_copied = true;
            next(Action::Copy, copied);
        }
        if let Some((old, new)) = world.late {
            let mut arrived = *world;
            arrived.late = None;
            if !self.protocol.has_condition() || arrived.places[0].files.checkpoint == old {
                let there = arrived.places[0].files.checkpoint.replace(new);
                arrived.places[0].settle_files();
                arrived.is_published(there, new);
            }
            next(Action::Late, arrived);
        }
        self.each_of_backups(world, next);
    }

    fn broken(&self, world: &World) -> Option<Invariant> {
        let mut broken = world.broken;
        let (locked, seen) = (world.lock.tree, world.seen);
        let is_behind = world.is_rolled_back && seen.goes_on_from(locked);
        broken.unless(
            locked.goes_on_from(seen) || is_behind,
            Invariant::OneHistory,
        );
        broken.unless(!world.lock.tree.repeats(), Invariant::NoEntryTwice);
        for instance in &world.instances {
            let index = &instance.index;
            // A duplicate gets an SCT with the place in the index. The model does not rely on the
            // comparison with the tree in `proof.rs`.
            let published = |at| world.seen.goes_on_from(index.tree.first(at + 1));
            let proves = |n| index.find(n).is_none_or(published);
            let running = instance.mode == Mode::Running;
            broken.unless(!running || (1..=3).all(proves), Invariant::NoSctOutside);
        }
        let goes_on = (0..self.instances).any(|i| self.can_be_opened(world, i));
        broken.unless(goes_on || self.is_refused(world), Invariant::NoPromiseLost);
        broken.first()
    }
}

impl Bounds {
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
                let step = self.first_step();
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
        if !self.protocol.in_bucket {
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
            happens(Action::LoseNewest(i), &|world| {
                world.instances[i].index.lose_newest()
            });
        }
    }

    fn each_of_backups(&self, world: &World, next: &mut dyn FnMut(Action, World)) {
        let (place, instance) = (world.places[0], world.instances[0]);
        let mut happens = |action, changed: World| {
            let restores = world.restores + u8::from(!matches!(action, Action::BackUp));
            next(
                action,
                World {
                    restores,
                    ..changed
                },
            );
        };
        match world.backup {
            _ if world.restores == self.restores => {}
            None => {
                let backup = Backup {
                    lock: world.lock,
                    place,
                    index: instance.index,
                    signed: world.signed,
                };
                let backup = Some(backup);
                happens(Action::BackUp, World { backup, ..*world });
            }
            Some(backup) => {
                if self.protocol.is_signed_apart {
                    let signed = backup.signed;
                    happens(Action::Forget, World { signed, ..*world });
                }
                if instance.mode == Mode::Down {
                    let mut restored = *world;
                    restored.lock = backup.lock;
                    restored.places[0] = backup.place;
                    restored.instances[0].index = backup.index;
                    restored.is_rolled_back = true;
                    happens(Action::RollBack, restored);
                }
            }
        }
    }

    /// Returns whether a start is allowed to refuse.
    fn is_refused(&self, world: &World) -> bool {
        let (lock, signed) = (world.lock, world.signed);
        let is_newest = lock.tree.goes_on_from(signed.tree) && lock.time >= signed.time;
        match world.restores {
            0 => false,
            // The operator has to restore the newest lock and data.
            1 if self.instances == 1 => world.is_rolled_back && !is_newest,
            // Two instances may get signatures of older trees from a signer that has forgotten, or
            // all memory of a signature is lost: the operator has to decide.
            _ => true,
        }
    }

    fn each_step(&self, world: &World, i: usize, happens: &mut Happens<'_>) {
        let instance = &world.instances[i];
        let at = self.place_of(i);
        // Settling runs concurrently with rounds, and removes only records of rounds that were
        // published before it began.
        happens(Action::Settle(i), &|world| {
            let size = match &world.instances[i].round {
                None => world.instances[i].committed.tree.size(),
                Some(_) => world.instances[i].index.tree.size(),
            };
            world.places[at].settle(size);
            true
        });
        // Tiles are read concurrently with rounds, too.
        happens(Action::Read(i), &|world| {
            let place = world.places[at];
            world.instances[i].read(&place, self.protocol)
        });
        if let Some(phase) = instance.next_step(self.protocol) {
            happens(Action::Step(i, phase), &|world| self.step(world, i, phase));
            return;
        }
        if self.protocol.in_bucket && world.late.is_none() {
            happens(Action::Cosign(i), &|world| {
                let published = world.instances[i].committed;
                world.late = Some((Some(published), published));
                true
            });
        }
        if world.time == self.rounds {
            return;
        }
        happens(Action::Resign(i), &|world| {
            world.time += 1;
            world.instances[i].begin(None, world.time, false);
            self.own_steps(world, i)
        });
        for submission in (1..=self.submissions).filter(|n| instance.takes(*n, self.protocol)) {
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

    fn first_step(&self) -> Opening {
        if self.protocol.is_signed_apart {
            Opening::LastSigned
        } else {
            Opening::Committed
        }
    }

    fn place_of(&self, i: usize) -> usize {
        if self.protocol.in_bucket { 0 } else { i }
    }

    fn open(&self, world: &mut World, i: usize, step: Opening) -> bool {
        let (mut instance, mut place) = (world.instances[i], world.places[self.place_of(i)]);
        let mut around = world.around(&mut place);
        let outcome = instance.open(step, &mut around, self.protocol);
        let (noted, told) = (around.noted(), around.told);
        self.take_over(world, i, (instance, place, noted), told);
        self.goes_on(world, i, &outcome)
    }

    /// Takes a step, and all following steps that change only the memory of the process. A crash
    /// before these steps has the same result as a crash after them.
    fn step(&self, world: &mut World, i: usize, phase: Phase) -> bool {
        let (mut instance, mut place) = (world.instances[i], world.places[self.place_of(i)]);
        let mut around = world.around(&mut place);
        let outcome = instance.step(phase, &mut around, self.protocol);
        let (noted, told) = (around.noted(), around.told);
        self.take_over(world, i, (instance, place, noted), told);
        self.goes_on(world, i, &outcome) && self.own_steps(world, i)
    }

    fn own_steps(&self, world: &mut World, i: usize) -> bool {
        match world.instances[i].next_step(self.protocol) {
            Some(Phase::Sign) if self.protocol.is_signed_apart => true,
            Some(next @ (Phase::Prepare | Phase::Sign)) => self.step(world, i, next),
            _ => true,
        }
    }

    fn take_over(
        &self,
        world: &mut World,
        i: usize,
        (instance, place, (lock, signed)): (Instance, Place, (Note, Note)),
        told: Told,
    ) {
        world.instances[i] = instance;
        world.places[self.place_of(i)] = place;
        let grows = lock.tree.goes_on_from(world.lock.tree);
        world.broken.unless(grows, Invariant::OneHistory);
        (world.lock, world.signed) = (lock, signed);
        if let Some((there, new)) = told.published {
            world.is_published(there, new);
        }
        if let Some((index, leaf)) = told.promised {
            let holds = world.seen.leaf(index) == leaf;
            world.broken.unless(holds, Invariant::NoSctOutside);
        }
    }

    /// Applies the outcome of a step; returns whether the step was possible.
    fn goes_on(&self, world: &mut World, i: usize, outcome: &Outcome) -> bool {
        if matches!(outcome, Outcome::Stopped) {
            world.instances[i] = Instance::down(world.instances[i].index);
        }
        !matches!(outcome, Outcome::Impossible)
    }

    fn crash(&self, world: &mut World, i: usize) {
        let instance = &world.instances[i];
        if self.protocol.in_bucket {
            world.late = world.late.or(instance.put_under_way(self.protocol));
        }
        world.instances[i] = Instance::down(instance.index);
    }

    /// Returns whether a start of this instance succeeds after the end of all processes.
    fn can_be_opened(&self, world: &World, i: usize) -> bool {
        let mut place = world.places[self.place_of(i)];
        let mut instance = Instance::down(world.instances[i].index);
        let mut step = self.first_step();
        loop {
            let opened = instance.open(step, &mut world.around(&mut place), self.protocol);
            match (opened, instance.mode) {
                (Outcome::Done, Mode::Opening(next)) => step = next,
                (Outcome::Done, Mode::Running) => return true,
                _ => return false,
            }
        }
    }
}

impl World {
    /// Returns the surroundings of an instance with this storage.
    fn around<'w>(&self, place: &'w mut Place) -> Around<'w> {
        Around::of((self.lock, self.signed), place)
    }

    fn is_published(&mut self, there: Option<Note>, new: Note) {
        note_publication((&mut self.seen, &mut self.broken), there, new);
    }
}

/// Checks a published checkpoint against the former checkpoint and against the largest tree `seen`.
pub(super) fn note_publication(
    (seen, broken): (&mut Tree, &mut Broken),
    there: Option<Note>,
    new: Note,
) {
    let goes_back = there.is_some_and(|there| !new.tree.goes_on_from(there.tree));
    let is_ours = new.tree.goes_on_from(*seen) || seen.goes_on_from(new.tree);
    broken.unless(is_ours, Invariant::OneHistory);
    broken.unless(!goes_back, Invariant::AppendOnly);
    if new.tree.size() > seen.size() {
        *seen = new.tree;
    }
}
