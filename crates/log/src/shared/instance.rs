//! This process among the instances of a log.

use lucarne_storage::HolderId;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::config::LogConfig;
use crate::config::instances::{CHANGE_OF_LEADER, holder_id};
use crate::error::ReadError;
use crate::submit::forward_queue::Leader;

/// The state of this process as an instance of a log, for followers and leaders.
pub(crate) struct Instance {
    /// The ID of this process among the instances of the log.
    pub(crate) holder: HolderId,
    /// Wakes a follower, which reads the lock at once.
    pub(crate) nudge: Notify,
    /// The leading instance, or `None` if this instance leads or no leader is known.
    pub(crate) leader: watch::Sender<Option<Leader>>,
    /// A hash of the settings that must be the same in all instances.
    pub(crate) configuration: [u8; 32],
    /// The last read of the published checkpoint for readers of this process. One read runs at a
    /// time.
    pub(crate) look: tokio::sync::Mutex<Look>,
    /// The time until which no instance can have published a newer checkpoint than this process
    /// has; `None` if another instance leads, or while this process publishes a checkpoint.
    newest_until: Mutex<Option<Instant>>,
    /// The instance that has the lease, and does not lead or respond since this time.
    leads_not: Mutex<Option<(Leader, Instant)>>,
}

/// A read of the published checkpoint for readers.
#[derive(Default)]
pub(crate) struct Look {
    /// The start of the last read, which may have been cancelled.
    pub(crate) begun: Option<Instant>,
    /// The start and the result of the last complete read.
    pub(crate) done: Option<(Instant, Result<(), ReadError>)>,
}

impl Instance {
    pub(crate) fn of(config: &LogConfig) -> Self {
        Instance {
            holder: holder_id(),
            nudge: Notify::new(),
            leader: watch::Sender::default(),
            configuration: config.sum(),
            look: tokio::sync::Mutex::default(),
            newest_until: Mutex::default(),
            leads_not: Mutex::default(),
        }
    }

    /// Records that the instance with the lease does not respond, or responds that it does not
    /// lead. Returns whether this has lasted longer than a change of the leader lasts.
    pub(crate) fn leads_not(&self, leader: &Leader, now: Instant) -> bool {
        let mut known = self.leads_not.lock();
        let same = known.take_if(|(known, _)| *known == *leader);
        let (_, since) = known.insert(same.unwrap_or_else(|| (leader.clone(), now)));
        now.saturating_duration_since(*since) >= CHANGE_OF_LEADER
    }

    /// Records that the instance with the lease leads.
    pub(crate) fn leads(&self) {
        *self.leads_not.lock() = None;
    }

    /// Returns whether this process surely has the newest checkpoint that any instance has
    /// published.
    pub(crate) fn has_newest(&self) -> bool {
        let until = *self.newest_until.lock();
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Records that this process has the newest checkpoint until this time, or that another
    /// instance may have a newer one.
    pub(crate) fn set_newest_until(&self, until: Option<Instant>) {
        *self.newest_until.lock() = until;
    }

    /// Prolongs the time of [`set_newest_until`](Self::set_newest_until), if there is one.
    pub(crate) fn prolong_newest(&self, until: Instant) {
        if let Some(known) = &mut *self.newest_until.lock() {
            *known = until;
        }
    }
}
