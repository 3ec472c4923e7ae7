//! The queue of what a follower has verified, and who leads.

use std::time::Duration;

use lucarne_ct::Entry;
use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::wire::{Item, Outcome, Pressure};
use crate::lane::{Lane, LaneConfig};
use crate::pool::whole_seconds;

/// The instance that leads, as a follower knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) address: String,
    pub(crate) epoch: u64,
}

/// An entry that waits for its outcome.
pub(crate) struct Queued {
    pub(crate) item: Item,
    pub(crate) outcome: oneshot::Sender<Outcome>,
}

/// The queues of what is to be sent, one for each lane: what is fresh passes by what is old.
pub(crate) struct Forwarder {
    fresh: mpsc::Sender<Queued>,
    old: mpsc::Sender<Queued>,
    pressure: Mutex<Pressure>,
}

/// Their other ends.
pub(crate) struct QueuedLanes {
    pub(crate) fresh: mpsc::Receiver<Queued>,
    pub(crate) old: mpsc::Receiver<Queued>,
}

impl Forwarder {
    /// Queues of at most so many entries, as the pool has, and their other ends.
    pub(crate) fn new(pool_size: usize, lanes: &LaneConfig) -> (Self, QueuedLanes) {
        // What tokio's channels take is bounded.
        let queue = |capacity: usize| mpsc::channel(capacity.clamp(1, 1 << 20));
        let (fresh, queued_fresh) = queue(pool_size);
        let (old, queued_old) = queue(lanes.old_share(pool_size));
        let queued = QueuedLanes {
            fresh: queued_fresh,
            old: queued_old,
        };
        let forwarder = Forwarder {
            fresh,
            old,
            pressure: Mutex::default(),
        };
        (forwarder, queued)
    }

    /// Queues an entry.
    ///
    /// # Errors
    /// If there is no room, or nobody sends any more.
    pub(crate) fn send(
        &self,
        entry: Entry,
        lane: Lane,
        not_before_ms: Option<i64>,
    ) -> Result<oneshot::Receiver<Outcome>, TrySendError<()>> {
        let (outcome, decided) = oneshot::channel();
        let item = Item {
            entry,
            not_before_ms,
        };
        match self.queue(lane).try_send(Queued { item, outcome }) {
            Ok(()) => Ok(decided),
            Err(TrySendError::Full(_)) => Err(TrySendError::Full(())),
            Err(TrySendError::Closed(_)) => Err(TrySendError::Closed(())),
        }
    }

    /// Notes the load of the leader's pool.
    pub(crate) fn note(&self, pressure: Pressure) {
        *self.pressure.lock() = pressure;
    }

    /// Seconds until the leader's rounds have taken the entries that wait there, and those of this
    /// lane that wait here.
    pub(crate) fn retry_after_seconds(&self, lane: Lane) -> u32 {
        let Pressure { depth, drain_rate } = *self.pressure.lock();
        let queue = self.queue(lane);
        let queued = queue.max_capacity() - queue.capacity();
        let waiting = f64::from(depth) + queued as f64;
        let wait = match drain_rate {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(waiting / f64::from(rate)),
        };
        whole_seconds(wait)
    }

    fn queue(&self, lane: Lane) -> &mpsc::Sender<Queued> {
        match lane {
            Lane::Fresh => &self.fresh,
            Lane::Old => &self.old,
        }
    }
}
