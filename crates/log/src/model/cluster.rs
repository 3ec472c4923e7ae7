//! Several instances of one log in one bucket: one leads, the others follow.
//!
//! A follower reads lock and bucket, extends its tree and its index, serves reads, and writes
//! nothing. It may take the lease at any step, because each follower measures the silence of the
//! leader with its own clock. The old leader notices this at any later step, or never. Two
//! instances may therefore lead at the same time, or none. The record in the lock may also lose its
//! holder. A leader recovers and sequences with the steps of [`super::instance`].
//!
//! With `forwards`, the clients of both instances submit the same entry any number of times. A
//! follower forwards the entry to the other instance, which may lead, follow, or have led before. A
//! leader looks the entry up and adds it to the pool, in two steps. After publication, the leader
//! responds with the index. A follower signs an SCT only if its own tree has the entry at this
//! index.
//!
//! The model omits batches with several entries, and messages that return to their sender: a
//! follower refuses these messages, and a leader treats them like submissions of its own clients.
//! [`super::world`] has late writes of ended processes and faults of disks.
//!
//! `actions` has the possible actions of each state. `changes` has the changes that each action
//! causes in the state.

mod actions;
mod changes;

use super::checker::Machine;
use super::cluster_action::Action;
use super::history::{Leaf, Note, Tree};
use super::instance::{Around, Index, Instance, Mode, Opening, Outcome};
use super::member::{Lease, Member, Network};
use super::place::Place;
use super::protocol::{InstanceRule, Protocol};
use super::world::{Broken, Invariant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cluster {
    lock: Note,
    place: Place,
    lease: Lease,
    members: [Member; 2],
    network: Network,
    /// The time of the last round.
    time: u8,
    /// The largest tree that was ever published.
    seen: Tree,
    broken: Broken,
}

/// The protocol of two instances, and the bounds of an exploration.
#[derive(Clone, Copy)]
pub(super) struct ClusterBounds {
    pub(super) protocol: Protocol,
    /// The rule that is disabled.
    pub(super) without: Option<InstanceRule>,
    /// Maximum number of rounds and new signatures of both instances together, at most three.
    pub(super) rounds: u8,
    /// Number of different submissions. Unused if followers forward.
    pub(super) submissions: u8,
    /// Maximum number of times that the lease is taken.
    pub(super) epochs: u8,
    /// Whether followers forward one entry. If so, a recovery is one step, and nothing is signed
    /// again.
    pub(super) forwards: bool,
}

impl Machine for ClusterBounds {
    type State = Cluster;
    type Action = Action;
    type Invariant = Invariant;

    fn initial(&self) -> Cluster {
        Cluster {
            lock: Note::FIRST,
            place: Place::NEW,
            lease: Lease::FIRST,
            members: [Member::down(Index::EMPTY); 2],
            network: Network::QUIET,
            time: 0,
            seen: Tree::EMPTY,
            broken: Broken::default(),
        }
    }

    fn each(&self, cluster: &Cluster, next: &mut dyn FnMut(Action, Cluster)) {
        for i in 0..2 {
            self.each_of(cluster, i, next);
        }
        if cluster.lease.holder.is_some() {
            let mut changed = *cluster;
            changed.lease.holder = None;
            next(Action::LoseLease, changed);
        }
        // The two instances are equal, so a wrong response to one of them covers both.
        let wrong = (0, 1);
        if self.forwards && !cluster.network.has_response(1, wrong) {
            let mut changed = *cluster;
            changed.network.respond(1, wrong);
            next(Action::WrongResponse(1), changed);
        }
    }

    fn broken(&self, cluster: &Cluster) -> Option<Invariant> {
        let mut broken = cluster.broken;
        let (locked, seen) = (cluster.lock.tree, cluster.seen);
        broken.unless(locked.goes_on_from(seen), Invariant::OneHistory);
        broken.unless(!locked.repeats(), Invariant::NoEntryTwice);
        let goes_on = cluster.members.iter().any(|member| {
            let (mut place, mut instance) = (cluster.place, Instance::down(member.instance.index));
            let mut around = Around::of((cluster.lock, Note::FIRST), &mut place);
            let outcome = recover(&mut instance, &mut around, self.protocol);
            matches!(outcome, Outcome::Done)
        });
        broken.unless(goes_on, Invariant::NoPromiseLost);
        broken.first()
    }
}

impl ClusterBounds {
    fn has(&self, rule: InstanceRule) -> bool {
        self.without != Some(rule)
    }
}

impl Cluster {
    fn published(&self) -> Note {
        self.place.files.checkpoint.unwrap_or(Note::FIRST)
    }

    /// Shows a tree to the readers of an instance.
    fn show(&mut self, i: usize, tree: Tree) {
        let goes_on = tree.goes_on_from(self.members[i].shown);
        self.broken.unless(goes_on, Invariant::NoViewBack);
        let is_published = self.seen.goes_on_from(tree);
        self.broken.unless(is_published, Invariant::OneHistory);
        self.members[i].shown = tree;
    }

    /// Checks a promise: the published log must have this entry.
    fn promise(&mut self, index: usize, leaf: Leaf) {
        let holds = self.seen.leaf(index) == leaf;
        self.broken.unless(holds, Invariant::NoSctOutside);
    }

    /// Responds to the client of this instance with an SCT, or to another instance with the place.
    /// Both responses promise that the entry is published.
    fn respond(&mut self, (from, at): (usize, usize), index: usize, leaf: Leaf) {
        self.promise(index, leaf);
        if from != at {
            self.network.respond(from, (index, leaf.time()));
        }
    }
}

/// Takes all steps of an opening.
fn recover(instance: &mut Instance, around: &mut Around<'_>, rules: Protocol) -> Outcome {
    let mut step = Opening::Committed;
    loop {
        let opened = instance.open(step, around, rules);
        match (opened, instance.mode) {
            (Outcome::Done, Mode::Opening(next)) => step = next,
            (opened, _) => return opened,
        }
    }
}
