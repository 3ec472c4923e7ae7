//! One of several instances of a log: its process, its readers and its requests.

use super::history::{MOST, Note, Tree};
use super::instance::{Index, Instance, Mode};

/// The submission that all clients send, if followers forward submissions.
pub(super) const CHAIN: u8 = 1;

/// Number of different times of entries: one more than the maximum number of rounds.
const TIMES: u8 = 4;

/// The record in the lock that names the leader. The model omits the number of the renewal, which
/// is only a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    /// The leading instance; `None` if the last leader has handed the lease over, or if the record
    /// is wrong.
    pub(super) holder: Option<u8>,
    pub(super) epoch: u8,
}

impl Lease {
    pub(super) const FIRST: Lease = Lease {
        holder: None,
        epoch: 0,
    };

    pub(super) fn of(i: usize, epoch: u8) -> Self {
        Lease {
            holder: Some(i as u8),
            epoch,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Down,
    /// The instance has read this checkpoint, the first of two checkpoints that an opening
    /// compares.
    Opening(Note),
    Following,
    /// The instance took the lease in this epoch, and has not noticed a loss of the lease.
    Leading(u8),
}

/// A request to log the entry, at an instance that leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    None,
    /// Neither the pool nor the index has the entry.
    Absent,
    /// Neither the pool nor the index had the entry, but a round has moved it from the pool to the
    /// index after the lookup.
    Outdated,
    /// The entry waits for its round, or its round is under way.
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) role: Role,
    /// The process of this instance, which is idle unless the instance leads. A follower uses only
    /// the index of the process.
    pub(super) instance: Instance,
    /// The tree that readers of this instance saw last, even before the last start of the instance.
    pub(super) shown: Tree,
    /// The requests of the clients of each instance.
    pub(super) requests: [Request; 2],
    /// The entry waits in the pool.
    pub(super) waits: bool,
}

impl Member {
    /// Returns an instance that has this index, and is not running.
    pub(super) fn down(index: Index) -> Self {
        Member {
            role: Role::Down,
            instance: Instance::down(index),
            shown: Tree::EMPTY,
            requests: [Request::None; 2],
            waits: false,
        }
    }

    /// Ends the process, or its session of the log. Waiting clients get 503.
    pub(super) fn end(&mut self) {
        *self = Member {
            shown: self.shown,
            ..Member::down(self.instance.index)
        };
    }

    /// Follows with the same index and the same readers.
    pub(super) fn follow(&mut self) {
        self.end();
        self.role = Role::Following;
    }

    /// Begins to lead in this epoch: the recovery comes first.
    pub(super) fn lead(&mut self, epoch: u8, first: Mode) {
        self.role = Role::Leading(epoch);
        self.instance.mode = first;
    }

    /// Returns whether this instance has recovered and sequences.
    pub(super) fn is_sequencing(&self) -> bool {
        matches!(self.role, Role::Leading(_)) && self.instance.mode == Mode::Running
    }

    /// Returns whether the pool has the entry: the entry waits, or is in a round that the index
    /// lacks.
    pub(super) fn has_in_memory(&self) -> bool {
        self.waits || self.instance.is_sequencing(CHAIN)
    }
}

/// The messages between the instances. No message is ever removed: each may arrive late, in any
/// order, many times, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Network {
    /// Whether each instance has forwarded the entry to the other instance.
    pub(super) batches: [bool; 2],
    /// The places in responses: a bit for each recipient, index and time.
    responses: u32,
}

impl Network {
    pub(super) const QUIET: Network = Network {
        batches: [false; 2],
        responses: 0,
    };

    /// Sends a response with this place of the entry.
    pub(super) fn respond(&mut self, to: usize, (index, time): (usize, u8)) {
        self.responses |= Network::bit(to, (index, time));
    }

    pub(super) fn has_response(self, to: usize, (index, time): (usize, u8)) -> bool {
        self.responses & Network::bit(to, (index, time)) != 0
    }

    /// Returns the places in the responses to this instance.
    pub(super) fn responses(self, to: usize) -> impl Iterator<Item = (usize, u8)> {
        let places = (0..MOST).flat_map(|index| (0..TIMES).map(move |time| (index, time)));
        places.filter(move |place| self.has_response(to, *place))
    }

    fn bit(to: usize, (index, time): (usize, u8)) -> u32 {
        assert!(index < MOST && time < TIMES, "entry {index} at {time}");
        1u32 << ((to * MOST + index) * usize::from(TIMES) + usize::from(time))
    }
}
