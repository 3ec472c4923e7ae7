//! The queue of what a follower has verified, and who leads.

use lucarne_ct::Entry;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::wire::{Item, Outcome};
use crate::lane::{Lane, LaneConfig};

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
        (Forwarder { fresh, old }, queued)
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
        let queue = match lane {
            Lane::Fresh => &self.fresh,
            Lane::Old => &self.old,
        };
        match queue.try_send(Queued { item, outcome }) {
            Ok(()) => Ok(decided),
            Err(TrySendError::Full(_)) => Err(TrySendError::Full(())),
            Err(TrySendError::Closed(_)) => Err(TrySendError::Closed(())),
        }
    }
}
