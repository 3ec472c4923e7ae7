//! The configuration of one instance of a log.

use std::sync::Arc;
use std::time::Duration;

use lucarne_storage::HolderId;

use crate::config::messenger::Messenger;

/// The pause between a failed attempt to lead and the next attempt.
pub(crate) const AGAIN: Duration = Duration::from_millis(100);

/// The time in which another instance replaces a leader that fails. A follower is healthy for this
/// long without a leader: its submissions wait, and all followers lose the leader at the same time,
/// so that a balancer would have no instance left. Shorter than the time that submissions wait.
pub(crate) const CHANGE_OF_LEADER: Duration = Duration::from_secs(4);

/// The configuration of this process as one of several instances of a log.
#[derive(Clone, Debug)]
pub struct Instances {
    /// Address as `host:port`. Other instances connect to this address when this instance leads.
    pub address: String,
    /// The time without a sign of life after which another instance replaces the leader.
    pub lease: Duration,
    /// The channel to the other instances.
    pub messenger: Arc<dyn Messenger>,
}

impl Instances {
    /// The default of [`lease`](Self::lease).
    pub const LEASE: Duration = Duration::from_millis(1500);

    /// Returns the interval for polling the lock, which also bounds the additional delay for
    /// clients of a follower.
    pub(crate) fn poll(&self) -> Duration {
        self.lease / 6
    }

    /// Returns the time after which a leader without new checkpoints renews its lease.
    pub(crate) fn renewal(&self) -> Duration {
        self.lease / 3
    }

    /// Returns the time without a change after which the leader may have been replaced. The leader
    /// then reads the lock before it commits.
    pub(crate) fn doubt(&self) -> Duration {
        self.lease * 2 / 3
    }
}

/// Returns a random ID for this process, which no other process has. The ID need not be hard to
/// guess.
pub(crate) fn holder_id() -> HolderId {
    use std::hash::{BuildHasher, RandomState};
    let half = || {
        RandomState::new()
            .hash_one(std::process::id())
            .to_be_bytes()
    };
    let mut id = [0; 16];
    id[..8].copy_from_slice(&half());
    id[8..].copy_from_slice(&half());
    id
}
