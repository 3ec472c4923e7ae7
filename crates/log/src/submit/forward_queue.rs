//! The queue of entries that a follower has verified, and the leader's identity.

use std::time::Duration;

use lucarne_ct::Entry;
use parking_lot::Mutex;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::config::lane::{Lane, LaneConfig};
use crate::submit::forward_wire::{Item, Outcome, Pressure};
use crate::submit::pool::whole_seconds;

/// The leading instance, according to the lease that a follower has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) address: String,
    pub(crate) epoch: u64,
}

/// An entry whose outcome is pending.
pub(crate) struct Queued {
    pub(crate) item: Item,
    pub(crate) outcome: oneshot::Sender<Outcome>,
}

/// The queues of entries to send, one for each lane: fresh entries overtake old entries.
pub(crate) struct Forwarder {
    fresh: mpsc::Sender<Queued>,
    old: mpsc::Sender<Queued>,
    pressure: Mutex<Pressure>,
}

/// The receiving ends of the queues.
pub(crate) struct QueuedLanes {
    pub(crate) fresh: mpsc::Receiver<Queued>,
    pub(crate) old: mpsc::Receiver<Queued>,
}

impl Forwarder {
    /// Returns queues with the capacity of the pool, and their receiving ends.
    pub(crate) fn new(pool_size: usize, lanes: &LaneConfig) -> (Self, QueuedLanes) {
        // The channels of tokio limit their capacity.
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
    /// If the queue is full, or its receiving end is closed.
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

    /// Records the load of the leader's pool.
    pub(crate) fn note(&self, pressure: Pressure) {
        *self.pressure.lock() = pressure;
    }

    /// Returns the estimated seconds until the leader's rounds have taken all entries of the
    /// leader's pool, and the queued entries of this lane.
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
