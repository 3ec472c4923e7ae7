//! Several instances of one log in one bucket: one leads, the others follow.
//!
//! A follower reads lock and bucket, extends its tree and its index, serves reads, and writes
//! nothing. It may take the lease at any step, because each follower measures the silence of the
//! leader with its own clock. The old leader notices this at any later step, or never. So two
//! instances may lead, or none; the record in the lock may also lose its holder. A leader recovers
//! with the steps of [`super::instance`], and sequences with them.
//!
//! With `forwards`, the clients of both instances submit the same entry any number of times. A
//! follower forwards the entry to the other instance, which may lead, follow, or have led before. A
//! leader looks the entry up and adds it to the pool, in two steps. After publication, the leader
//! responds with the index. A follower signs an SCT only if its own tree has the entry at this
//! index.
//!
//! The model omits batches with several entries, and messages that return to their sender: a
//! follower refuses this message, and a leader treats it like a submission of its own client.
//! [`super::world`] has puts of ended processes and faults of disks.

use super::checker::Machine;
use super::cluster_action::Action;
use super::history::{Leaf, Note, Tree};
use super::instance::{Around, Index, Instance, Mode, Opening, Outcome};
use super::member::{CHAIN, Lease, Member, Network, Request, Role};
use super::place::Place;
use super::protocol::{InstanceRule, Protocol};
use super::world::{Broken, Invariant, note_publication};
use crate::sequence::phase::Phase;

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

/// A function that gets an action and its change. The change returns whether the action is
/// possible.
type Happens<'h> = dyn FnMut(Action, &dyn Fn(&mut Cluster) -> bool) + 'h;

/// The protocol of two instances, and the bounds of an exploration.
#[derive(Clone, Copy)]
pub(super) struct ClusterBounds {
    pub(super) protocol: Protocol,
    /// The rule that is disabled.
    pub(super) without: Option<InstanceRule>,
    /// Rounds and new signatures, of both instances together: at most three.
    pub(super) rounds: u8,
    /// Submissions, if they are not forwarded.
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

    fn each_of(&self, cluster: &Cluster, i: usize, next: &mut dyn FnMut(Action, Cluster)) {
        let role = cluster.members[i].role;
        let leads = matches!(role, Role::Leading(_));
        let mut happens = |action, change: &dyn Fn(&mut Cluster) -> bool| {
            let mut changed = *cluster;
            if change(&mut changed) {
                let same = changed.lock == cluster.lock && changed.place == cluster.place;
                changed
                    .broken
                    .unless(leads || same, Invariant::OnlyLeaderWrites);
                next(action, changed);
            }
        };
        match role {
            Role::Down => happens(Action::Read(i), &|cluster| {
                cluster.members[i].role = Role::Opening(self.first_read(cluster));
                true
            }),
            Role::Opening(first) => happens(Action::Compare(i), &|cluster| {
                self.compare(cluster, i, first);
                true
            }),
            Role::Following => self.each_following(cluster, i, &mut happens),
            Role::Leading(epoch) => self.each_leading(cluster, i, epoch, &mut happens),
        }
        if role != Role::Down {
            happens(Action::Crash(i), &|cluster| {
                cluster.members[i].end();
                true
            });
        }
    }

    fn each_following(&self, cluster: &Cluster, i: usize, happens: &mut Happens<'_>) {
        happens(Action::Follow(i), &|cluster| {
            let published = cluster.published();
            self.follow(cluster, i, published)
        });
        happens(Action::FollowStale(i), &|cluster| {
            self.follow(cluster, i, Note::FIRST)
        });
        if cluster.lease.epoch < self.epochs {
            happens(Action::TakeLease(i), &|cluster| {
                let epoch = cluster.lease.epoch + 1;
                cluster.lease = Lease::of(i, epoch);
                cluster.members[i].lead(epoch, Mode::Opening(Opening::Committed));
                true
            });
        }
        if !self.forwards {
            return;
        }
        let member = &cluster.members[i];
        match member.instance.index.find(CHAIN) {
            Some(index) => happens(Action::Duplicate(i), &|cluster| {
                let leaf = cluster.members[i].shown.leaf(index);
                cluster.promise(index, leaf);
                true
            }),
            None => happens(Action::Forward(i), &|cluster| {
                !std::mem::replace(&mut cluster.network.batches[i], true)
            }),
        }
        for (index, time) in cluster.network.responses(i) {
            let leaf = Leaf::new(CHAIN, time);
            // Without proof, the client gets 503.
            if member.shown.leaf(index) == leaf || !self.has(InstanceRule::Prove) {
                happens(Action::Receive(i, (index, time)), &|cluster| {
                    cluster.promise(index, leaf);
                    true
                });
            }
        }
    }

    fn each_leading(&self, cluster: &Cluster, i: usize, epoch: u8, happens: &mut Happens<'_>) {
        let member = &cluster.members[i];
        if cluster.lease != Lease::of(i, epoch) {
            happens(Action::Depose(i), &|cluster| {
                cluster.members[i].end();
                true
            });
        }
        if let Mode::Opening(step) = member.instance.mode {
            let action = if self.forwards {
                Action::Recover(i)
            } else {
                Action::Opening(i, step)
            };
            happens(action, &|cluster| {
                self.open(cluster, i, step);
                true
            });
            return;
        }
        if self.forwards {
            self.each_request(cluster, i, happens);
        }
        if let Some(phase) = member.instance.next_step(self.protocol) {
            happens(Action::Step(i, phase), &|cluster| {
                self.step(cluster, i, phase)
            });
            return;
        }
        if !member.waits {
            happens(Action::HandOver(i), &|cluster| {
                if cluster.lease == Lease::of(i, epoch) {
                    cluster.lease.holder = None;
                }
                cluster.members[i].follow();
                true
            });
        }
        if cluster.time < self.rounds {
            self.each_round(member, i, happens);
        }
    }

    fn each_round(&self, member: &Member, i: usize, happens: &mut Happens<'_>) {
        if self.forwards {
            if member.waits {
                happens(Action::Seal(i, CHAIN), &|cluster| {
                    cluster.members[i].waits = false;
                    self.begin(cluster, i, Some(CHAIN))
                });
            }
            return;
        }
        happens(Action::Resign(i), &|cluster| self.begin(cluster, i, None));
        let instance = &member.instance;
        for submission in (1..=self.submissions).filter(|n| instance.takes(*n, self.protocol)) {
            happens(Action::Seal(i, submission), &|cluster| {
                self.begin(cluster, i, Some(submission))
            });
        }
    }

    fn each_request(&self, cluster: &Cluster, at: usize, happens: &mut Happens<'_>) {
        for from in 0..2 {
            let has_arrived = from == at || cluster.network.batches[from];
            match cluster.members[at].requests[from] {
                Request::None if has_arrived => {
                    happens(Action::Look { from, at }, &|cluster| {
                        self.look(cluster, from, at);
                        true
                    });
                }
                Request::Absent | Request::Outdated => {
                    happens(Action::Join { from, at }, &|cluster| {
                        self.join(cluster, from, at);
                        true
                    });
                }
                Request::None | Request::Waiting => {}
            }
        }
    }

    /// Returns the checkpoint that an opening reads first. (`follow::open`)
    fn first_read(&self, cluster: &Cluster) -> Note {
        if self.has(InstanceRule::ReadOrder) {
            cluster.published()
        } else {
            cluster.lock
        }
    }

    /// Reads the second checkpoint, and follows if the lock is not behind. (`follow::open`)
    fn compare(&self, cluster: &mut Cluster, i: usize, first: Note) {
        let (published, lock) = if self.has(InstanceRule::ReadOrder) {
            (first, cluster.lock)
        } else {
            (cluster.published(), first)
        };
        let is_behind = lock.tree.goes_on_from(published.tree) && published.time <= lock.time;
        let is_there = cluster.place.files.has(published.tree);
        let member = &mut cluster.members[i];
        let is_right = is_behind && is_there && member.instance.follow(published.tree);
        // Nothing was rolled back.
        cluster.broken.unless(is_right, Invariant::NoFalseAlarm);
        if !is_right {
            return cluster.members[i].end();
        }
        cluster.members[i].role = Role::Following;
        cluster.show(i, published.tree);
        if !self.has(InstanceRule::ReadOnly) {
            self.run(cluster, i, |instance, around| {
                recover(instance, around, self.protocol)
            });
            cluster.members[i].follow();
        }
    }

    /// Extends the tree of a follower to this checkpoint; returns `false` if its tiles are missing.
    /// (`Follower::advance`)
    fn follow(&self, cluster: &mut Cluster, i: usize, published: Note) -> bool {
        let shown = cluster.members[i].shown;
        if !published.tree.goes_on_from(shown) && self.has(InstanceRule::NoStaleView) {
            cluster.members[i].end();
            return true;
        }
        let is_there = cluster.place.files.has(published.tree);
        if is_there {
            cluster.show(i, published.tree);
            cluster.members[i].instance.follow(published.tree);
        }
        is_there
    }

    /// Takes a step of the recovery of a leader, or all of them. The index has the recovered tree
    /// before anything is accepted. (`Follower::lead`)
    fn open(&self, cluster: &mut Cluster, i: usize, step: Opening) {
        let index = cluster.members[i].instance.index;
        self.run(cluster, i, |instance, around| {
            if self.forwards {
                recover(instance, around, self.protocol)
            } else {
                instance.open(step, around, self.protocol)
            }
        });
        let place = cluster.place;
        let member = &mut cluster.members[i];
        if !member.is_sequencing() {
            return;
        }
        if self.has(InstanceRule::IndexFirst) {
            while member.instance.read(&place, self.protocol) {}
        } else {
            member.instance.index = index;
        }
        let recovered = member.instance.committed.tree;
        cluster.show(i, recovered);
    }

    /// Begins a round with this submission, or without any.
    fn begin(&self, cluster: &mut Cluster, i: usize, submission: Option<u8>) -> bool {
        cluster.time += 1;
        let time = cluster.time;
        let leaf = submission.map(|submission| Leaf::new(submission, time));
        cluster.members[i].instance.begin(leaf, time, false);
        self.own_steps(cluster, i)
    }

    /// Takes a step of the sequencer, and the steps after it that change only its memory.
    fn step(&self, cluster: &mut Cluster, i: usize, phase: Phase) -> bool {
        let outcome = self.run(cluster, i, |instance, around| {
            instance.step(phase, around, self.protocol)
        });
        match (outcome, phase) {
            (Outcome::Impossible, _) => return false,
            (Outcome::Stopped, _) => return true,
            (Outcome::Done, Phase::PublishCheckpoint) => {
                let published = cluster.members[i].instance.committed.tree;
                cluster.show(i, published);
            }
            // The pool forgets the round: earlier lookups have to be repeated.
            (Outcome::Done, Phase::Index) => {
                for request in &mut cluster.members[i].requests {
                    if *request == Request::Absent {
                        *request = Request::Outdated;
                    }
                }
            }
            (Outcome::Done, _) => {}
        }
        self.own_steps(cluster, i)
    }

    fn own_steps(&self, cluster: &mut Cluster, i: usize) -> bool {
        match cluster.members[i].instance.next_step(self.protocol) {
            Some(next @ (Phase::Prepare | Phase::Sign)) => self.step(cluster, i, next),
            _ => true,
        }
    }

    /// Returns whether a leader believes a follower that the entry is new.
    fn trusts(&self, from: usize, at: usize) -> bool {
        from != at && !self.has(InstanceRule::LookAgain)
    }

    /// Looks for the entry in the pool, then in the index. (`Shared::look`)
    fn look(&self, cluster: &mut Cluster, from: usize, at: usize) {
        let member = &mut cluster.members[at];
        let tree = member.instance.index.tree;
        let (request, found) = match member.instance.index.find(CHAIN) {
            _ if self.trusts(from, at) => (Request::Absent, None),
            _ if member.has_in_memory() => (Request::Waiting, None),
            None => (Request::Absent, None),
            found => (Request::None, found),
        };
        member.requests[from] = request;
        if let Some(index) = found {
            cluster.respond((from, at), index, tree.leaf(index));
        }
    }

    /// Joins the pool, unless the entry is there by now. (`Pool::join`)
    fn join(&self, cluster: &mut Cluster, from: usize, at: usize) {
        let member = &mut cluster.members[at];
        let is_outdated = member.requests[from] == Request::Outdated;
        let trusts = self.trusts(from, at);
        if trusts || !member.has_in_memory() {
            if is_outdated && !trusts && self.has(InstanceRule::SameEpoch) {
                return self.look(cluster, from, at);
            }
            member.waits = true;
        }
        member.requests[from] = Request::Waiting;
    }

    /// Lets an instance take steps, and applies their changes.
    fn run(
        &self,
        cluster: &mut Cluster,
        i: usize,
        steps: impl FnOnce(&mut Instance, &mut Around<'_>) -> Outcome,
    ) -> Outcome {
        let (mut instance, mut place) = (cluster.members[i].instance, cluster.place);
        let mut around = Around::of((cluster.lock, Note::FIRST), &mut place);
        let outcome = steps(&mut instance, &mut around);
        let ((lock, _), told) = (around.noted(), around.told);
        cluster.members[i].instance = instance;
        cluster.place = place;
        let grows = lock.tree.goes_on_from(cluster.lock.tree);
        cluster.broken.unless(grows, Invariant::OneHistory);
        cluster.lock = lock;
        if let Some((there, new)) = told.published {
            note_publication((&mut cluster.seen, &mut cluster.broken), there, new);
        }
        if let Some((index, leaf)) = told.promised {
            self.respond(cluster, i, index, leaf);
        }
        if matches!(outcome, Outcome::Stopped) {
            cluster.members[i].end();
        }
        outcome
    }

    /// Responds to all requests that wait for a round.
    fn respond(&self, cluster: &mut Cluster, i: usize, index: usize, leaf: Leaf) {
        if !self.forwards {
            return cluster.promise(index, leaf);
        }
        for from in 0..2 {
            if cluster.members[i].requests[from] == Request::Waiting {
                cluster.members[i].requests[from] = Request::None;
                cluster.respond((from, i), index, leaf);
            }
        }
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

    /// Promises that the published log has this entry.
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
