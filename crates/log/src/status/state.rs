//! The status of a log: its state, statistics and health.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lucarne_tlog::Hash;

/// The states of a log: whether it accepts submissions, and the reason if not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The log reads lock, journal and tiles. Clients must retry their submissions later.
    Starting,
    /// The log sequences submissions.
    Running,
    /// This instance follows another instance of the log: it reads the log, and forwards verified
    /// submissions to the leading instance.
    Following {
        /// The address of the leading instance; `None` if no instance leads.
        leader: Option<String>,
    },
    /// A fatal error stopped this log. The server opens it again at `retry_at_ms`.
    Stopped {
        /// The failure, for the operator.
        reason: String,
        /// The time when the log stopped, in Unix milliseconds.
        since_ms: u64,
        /// The time of the next attempt to open the log, in Unix milliseconds.
        retry_at_ms: u64,
    },
    /// The shard's window ended more than seven days ago (410 Gone).
    Retired,
    /// The log was shut down on request.
    Closed,
}

/// The newest checkpoint that readers may see.
#[derive(Clone, Debug)]
pub struct Published {
    /// Number of entries.
    pub size: u64,
    /// Root hash of the tree.
    pub root: Hash,
    /// Timestamp in the RFC 6962 signature, in Unix milliseconds.
    pub timestamp_ms: u64,
    /// The signed note, exactly as served at `/checkpoint`.
    pub checkpoint: Bytes,
    /// The time when this process published or loaded the checkpoint.
    pub at: Instant,
}

/// Recent statistics of one log, for its status page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Entries per second over the last ten seconds.
    pub entries_per_second: f64,
    /// Median time from submission to SCT of the last 1024 submissions.
    pub latency_p50: Duration,
    /// 99th percentile of the time from submission to SCT of the last 1024 submissions.
    pub latency_p99: Duration,
    /// Number of entries that wait for a round.
    pub pool_depth: usize,
    /// Number of entries of the last round.
    pub round_entries: usize,
    /// Time from the start of the last round to its publication.
    pub round_duration: Duration,
}

/// A check of a log's health, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Stable name: `state`, `lock`, `storage`, `files`, `verification`, `checkpoint_age`, `clock`,
    /// `roots`, `scrub`, `witnesses`, `instances`, `dedup`, `answer`.
    pub name: &'static str,
    /// `true` if the result is good.
    pub ok: bool,
    /// The result, as text for operators.
    pub detail: String,
}

/// The health of one log. A log is healthy only if every check is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The results of all checks.
    pub checks: Vec<Check>,
}

impl Health {
    /// Returns whether every check is good.
    pub fn ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }
}
