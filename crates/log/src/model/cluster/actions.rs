//! The actions that are possible in a state of the cluster.

use super::{Cluster, ClusterBounds};
use crate::model::cluster_action::Action;
use crate::model::history::{Leaf, Note};
use crate::model::instance::{Mode, Opening};
use crate::model::member::{CHAIN, Lease, Member, Request, Role};
use crate::model::protocol::InstanceRule;
use crate::model::world::Invariant;

/// A callback for an action and its change. The change returns whether the action is possible.
type Happens<'h> = dyn FnMut(Action, &dyn Fn(&mut Cluster) -> bool) + 'h;

impl ClusterBounds {
    pub(super) fn each_of(
        &self,
        cluster: &Cluster,
        i: usize,
        next: &mut dyn FnMut(Action, Cluster),
    ) {
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

    pub(super) fn each_following(&self, cluster: &Cluster, i: usize, happens: &mut Happens<'_>) {
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

    pub(super) fn each_leading(
        &self,
        cluster: &Cluster,
        i: usize,
        epoch: u8,
        happens: &mut Happens<'_>,
    ) {
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

    pub(super) fn each_round(&self, member: &Member, i: usize, happens: &mut Happens<'_>) {
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

    pub(super) fn each_request(&self, cluster: &Cluster, at: usize, happens: &mut Happens<'_>) {
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
}
