//! The configuration of the rounds of a log, and of its memory.

use std::time::Duration;

use crate::config::lane::LaneConfig;

/// Settings of the sequencer, of the journal and of the cache in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundConfig {
    /// Minimum time between the starts of two rounds.
    pub period: Duration,
    /// Maximum number of entries that wait for a round. If the pool is full, the server responds
    /// to submissions with 503 and a Retry-After.
    pub pool_size: usize,
    /// The limits on fresh and on old submissions.
    pub lanes: LaneConfig,
    /// Maximum age of an idle log's checkpoint before the log signs a new one.
    pub max_checkpoint_age: Duration,
    /// Maximum number of bytes that are staged and published, but not yet durable in storage. The
    /// journal keeps these bytes until the storage has synced them, and a sync may hang. Beyond
    /// the limit, the server responds to submissions with 503 and a Retry-After.
    pub journal_bytes: u64,
    /// Memory for tiles that clients read, in bytes.
    pub read_cache_bytes: u64,
}

impl Default for RoundConfig {
    /// Returns the settings of a log on a disk.
    fn default() -> Self {
        RoundConfig {
            period: Duration::from_millis(200),
            pool_size: 4000,
            lanes: LaneConfig::default(),
            max_checkpoint_age: Duration::from_secs(5),
            journal_bytes: 1 << 30,
            read_cache_bytes: 16 << 20,
        }
    }
}

impl RoundConfig {
    /// Returns the settings of a log in a bucket. A round costs a fixed number of requests, and
    /// some stores accept only one write to an object per second. A checkpoint costs up to two
    /// paid requests: one for a lock in a bucket, and one for the publication.
    pub fn in_bucket() -> Self {
        RoundConfig {
            period: Duration::from_secs(1),
            max_checkpoint_age: Duration::from_secs(10),
            ..RoundConfig::default()
        }
    }
}
