//! The configuration of one log by its operator.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::{Policy, Roots, Validator, Verification};

use crate::{Clock, KnownCheckpoints, Metadata, ScrubConfig, Signer};

/// The settings of one log. Names follow Sunlight's configuration keys.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Short name, unique in the process: the label in metrics and messages.
    pub shortname: String,
    /// Free text for `log.v3.json` and the pages.
    pub description: String,
    /// Holds what else the operator says in `log.v3.json`.
    pub metadata: Metadata,
    /// The checkpoint origin: the submission prefix without scheme and
    /// trailing slash (static-ct-api, "Checkpoints").
    pub origin: String,
    /// The prefix under which clients submit, with scheme and trailing slash.
    pub submission_prefix: String,
    /// The prefix under which clients read, with scheme and trailing slash.
    pub monitoring_prefix: String,
    /// The holder of the key that signs SCTs and checkpoints.
    pub key: Signer,
    /// The policy of what the log accepts.
    pub policy: Policy,
    /// The verification of signatures: one for all logs of a process.
    pub verification: Arc<Verification>,
    /// Shortest distance between the starts of two rounds.
    pub period: Duration,
    /// Most entries that wait for a round; beyond, submissions are answered
    /// 503 with a Retry-After.
    pub pool_size: usize,
    /// Longest age of the checkpoint of an idle log before it is signed anew.
    pub checkpoint_interval: Duration,
    /// Directory of the dedup index. It can be lost: it is rebuilt from the
    /// log's own tiles.
    pub cache: PathBuf,
    /// Most bytes staged and published that storage has not been made to keep:
    /// the journal has them, until a sync that may hang. Beyond, submissions are
    /// answered 503 with a Retry-After.
    pub journal_bytes: u64,
    /// Bytes of memory for tiles that are read.
    pub read_cache_bytes: u64,
    /// The reading of all files again and again; `None` if nobody does.
    pub scrub: Option<ScrubConfig>,
    /// The places outside where this log's newest checkpoint may be known: asked at
    /// each opening.
    pub known: Option<Arc<dyn KnownCheckpoints>>,
    /// The clock that the log reads the time from: [`Clock::system`], except in tests.
    pub clock: Clock,
}

/// Seven days after its window ends a shard takes no submissions any more.
const GRACE_MS: u64 = 7 * 24 * 3600 * 1000;

impl LogConfig {
    /// Returns what decides of submissions, below these roots.
    pub(crate) fn validator(&self, roots: Roots) -> Validator {
        let (policy, verification) = (self.policy.clone(), Arc::clone(&self.verification));
        Validator::sharing(Arc::new(roots), policy, verification)
    }

    /// Returns when the shard is frozen, in milliseconds since 1970: seven days after
    /// the end of its notAfter window. A log without a window never is.
    pub fn frozen_from(&self) -> Option<u64> {
        let limit = self.policy.not_after_limit?;
        Some(limit.saturating_add(GRACE_MS))
    }

    /// Returns whether the shard is retired at `now_ms`: read-only since it was frozen.
    pub fn retired(&self, now_ms: u64) -> bool {
        self.frozen_from().is_some_and(|from| now_ms >= from)
    }
}
