//! The changes that each action causes in the state of the cluster.

use super::{Cluster, ClusterBounds, recover};
use crate::model::history::{Leaf, Note};
use crate::model::instance::{Around, Instance, Opening, Outcome};
use crate::model::member::{CHAIN, Request, Role};
use crate::model::protocol::InstanceRule;
use crate::model::world::{Invariant, note_publication};
use crate::sequence::phase::Phase;

impl ClusterBounds {
    /// Returns the checkpoint that an opening reads first. (`follow::open`)
    pub(super) fn first_read(&self, cluster: &Cluster) -> Note {
        if self.has(InstanceRule::ReadOrder) {
            cluster.published()
        } else {
            cluster.lock
        }
    }

    /// Reads the second checkpoint, and follows if the lock is not behind. (`follow::open`)
    pub(super) fn compare(&self, cluster: &mut Cluster, i: usize, first: Note) {
        let (published, lock) = if self.has(InstanceRule::ReadOrder) {
            (first, cluster.lock)
        } else {
            (cluster.published(), first)
        };
        let is_behind = lock.tree.goes_on_from(published.tree) && published.time <= lock.time;
        let is_there = cluster.place.files.has(published.tree);
        let member = &mut cluster.members[i];
        let is_right = is_behind && is_there && member.instance.follow(published.tree);
        // Nothing was rolled back, so the comparison must succeed.
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
    pub(super) fn follow(&self, cluster: &mut Cluster, i: usize, published: Note) -> bool {
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

    /// Takes one step of the recovery of a leader, or all steps. The index has the recovered tree
    /// before the leader accepts entries. (`Follower::lead`)
    pub(super) fn open(&self, cluster: &mut Cluster, i: usize, step: Opening) {
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

    /// Begins a round with this submission, or a new signature of the same tree.
    pub(super) fn begin(&self, cluster: &mut Cluster, i: usize, submission: Option<u8>) -> bool {
        cluster.time += 1;
        let time = cluster.time;
        let leaf = submission.map(|submission| Leaf::new(submission, time));
        cluster.members[i].instance.begin(leaf, time, false);
        self.own_steps(cluster, i)
    }

    /// Takes a step of the sequencer, and all following steps that change only its memory.
    pub(super) fn step(&self, cluster: &mut Cluster, i: usize, phase: Phase) -> bool {
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

    pub(super) fn own_steps(&self, cluster: &mut Cluster, i: usize) -> bool {
        match cluster.members[i].instance.next_step(self.protocol) {
            Some(next @ (Phase::Prepare | Phase::Sign)) => self.step(cluster, i, next),
            _ => true,
        }
    }

    /// Returns whether a leader believes a follower that the entry is new.
    pub(super) fn trusts(&self, from: usize, at: usize) -> bool {
        from != at && !self.has(InstanceRule::LookAgain)
    }

    /// Looks for the entry in the pool, then in the index. (`Submissions::look`)
    pub(super) fn look(&self, cluster: &mut Cluster, from: usize, at: usize) {
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

    /// Adds the entry to the pool, unless the pool has the entry by now. (`Pool::join`)
    pub(super) fn join(&self, cluster: &mut Cluster, from: usize, at: usize) {
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
    pub(super) fn run(
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
    pub(super) fn respond(&self, cluster: &mut Cluster, i: usize, index: usize, leaf: Leaf) {
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
