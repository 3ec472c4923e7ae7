//! The status of a log: its state, its figures, its health.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lucarne_tlog::Hash;

/// The states of a log: whether it takes submissions, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Reading lock, journal and tiles; submissions are told to come back.
    Starting,
    /// Sequencing.
    Running,
    /// One of several instances: reads along, and sends what it has verified to the one that
    /// leads.
    Following {
        /// The address of that one; `None` while none leads.
        leader: Option<String>,
    },
    /// A fatal error stopped this log; it is opened again at `retry_at_ms`.
    Stopped {
        /// The failure, for the operator.
        reason: String,
        /// Unix time in milliseconds.
        since_ms: u64,
        /// Unix time in milliseconds of the next attempt.
        retry_at_ms: u64,
    },
    /// The shard's window ended more than seven days ago (410 Gone).
    Retired,
    /// Shut down on request.
    Closed,
}

/// The newest checkpoint that readers may see.
#[derive(Clone, Debug)]
pub struct Published {
    /// Number of entries.
    pub size: u64,
    /// Root hash of the tree of that size.
    pub root: Hash,
    /// Timestamp inside the RFC 6962 signature, Unix milliseconds.
    pub timestamp_ms: u64,
    /// The signed note, exactly as served at `/checkpoint`.
    pub checkpoint: Bytes,
    /// The time when this process published or loaded it.
    pub at: Instant,
}

/// Recent figures of one log, for its page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Entries per second over the last ten seconds.
    pub entries_per_second: f64,
    /// Median time from submission to SCT over the last rounds.
    pub latency_p50: Duration,
    /// 99th percentile of the same.
    pub latency_p99: Duration,
    /// Entries waiting for the next round.
    pub pool_depth: usize,
    /// Entries of the last round.
    pub round_entries: usize,
    /// Time from the start of the last round to its publication.
    pub round_duration: Duration,
}

/// One question asked of a log's surroundings, and the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Stable name: `state`, `lock`, `storage`, `files`, `verification`,
    /// `checkpoint_age`, `clock`, `scrub`, `dedup`, `instances`.
    pub name: &'static str,
    /// True if the answer is good.
    pub ok: bool,
    /// The answer in words.
    pub detail: String,
}

/// The health of one log: healthy only if every check is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The checks made.
    pub checks: Vec<Check>,
}

impl Health {
    /// Returns whether every check is good.
    pub fn ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }
}
