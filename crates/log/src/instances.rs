//! Many instances of one log: what one of them is told of the others.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::LogId;
use lucarne_storage::HolderId;

/// The way to other instances of a log: authentic both ways.
#[async_trait]
pub trait Messenger: std::fmt::Debug + Send + Sync + 'static {
    /// Sends a message to the instance at `address`, and returns its response.
    ///
    /// # Errors
    /// If there is no response, or it is not from an instance of this log.
    async fn ask(&self, address: &str, log: LogId, message: Bytes)
    -> Result<Bytes, MessengerError>;
}

/// The leader gave no response that can be used.
#[derive(Debug, thiserror::Error)]
#[error("the instance at {address}, which leads: {source}")]
pub struct MessengerError {
    /// The address of the leader, as `host:port`.
    pub address: String,
    /// The reason.
    pub source: Box<dyn Error + Send + Sync>,
}

/// The part that this process takes among the instances of a log.
#[derive(Clone, Debug)]
pub struct Instances {
    /// The address, as `host:port`, where the others reach this instance when it leads.
    pub address: String,
    /// The time for which a leader may be silent before another takes its place.
    pub lease: Duration,
    /// The way to the others.
    pub messenger: Arc<dyn Messenger>,
}

impl Instances {
    /// The usual [`lease`](Self::lease).
    pub const LEASE: Duration = Duration::from_millis(1500);

    /// Time between two looks at the lock: what a follower's readers are behind at most.
    pub(crate) fn poll(&self) -> Duration {
        self.lease / 6
    }

    /// Time after which a leader that has nothing to sign renews its lease.
    pub(crate) fn renewal(&self) -> Duration {
        self.lease / 3
    }

    /// Time after which a leader that has changed nothing may have been replaced, and looks before
    /// it commits.
    pub(crate) fn doubt(&self) -> Duration {
        self.lease * 2 / 3
    }
}

/// A number that no other process has. It need not be hard to guess.
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
