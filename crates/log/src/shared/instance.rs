//! This process among the instances of a log.

use lucarne_storage::HolderId;
use tokio::sync::{Notify, watch};

use crate::config::LogConfig;
use crate::config::instances::holder_id;
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
}

impl Instance {
    pub(crate) fn of(config: &LogConfig) -> Self {
        Instance {
            holder: holder_id(),
            nudge: Notify::new(),
            leader: watch::Sender::default(),
            configuration: config.sum(),
        }
    }
}
