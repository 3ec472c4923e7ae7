//! The configuration of one log by its operator.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::{Policy, Require, Roots, Validator, Verification, sha256};

use crate::{Clock, Instances, KnownCheckpoints, LaneConfig, Metadata, ScrubConfig, Signer};

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
    /// Another prefix under which all of this is served.
    pub also_at: Option<String>,
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
    /// The lanes of submissions.
    pub lanes: LaneConfig,
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
    /// Directory of the index of leaf hashes, if the log is read as RFC 6962 has it, too; `None` if it is
    /// not. It can be lost: it is rebuilt from the log's own tiles.
    pub rfc6962_reads: Option<PathBuf>,
    /// The reading of all files again and again; `None` if nobody does.
    pub scrub: Option<ScrubConfig>,
    /// The places outside where this log's newest checkpoint may be known: asked at
    /// each opening.
    pub known: Option<Arc<dyn KnownCheckpoints>>,
    /// The part that this process takes among several instances of the log; `None` if it is the
    /// only one.
    pub instances: Option<Instances>,
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

    /// A sum of what must be the same in all instances of a log. Roots are not among it: they come
    /// to each in its time.
    pub(crate) fn sum(&self) -> [u8; 32] {
        let policy = &self.policy;
        let time = |time: Option<u64>| time.map_or_else(String::new, |time| time.to_string());
        let require = match policy.require {
            Require::ServerAuth => "serverAuth",
            Require::Any => "any",
        };
        let mut extensions: Vec<String> = policy
            .reject_extensions
            .iter()
            .map(|it| it.to_string())
            .collect();
        extensions.sort();
        let text = [
            self.origin.clone(),
            require.into(),
            policy.accept_sha1.to_string(),
            policy.reject_expired.to_string(),
            policy.reject_unexpired.to_string(),
            extensions.join(" "),
            time(policy.not_after_start),
            time(policy.not_after_limit),
            policy.max_chain.to_string(),
        ];
        sha256(&[text.join("\n").as_bytes()])
    }
}

/// The log `name` of a unit test, with its cache.
#[cfg(test)]
pub(crate) fn test_config(name: &str, cache: &std::path::Path) -> LogConfig {
    let prefix = format!("http://log.example/{name}/");
    LogConfig {
        shortname: name.into(),
        description: String::new(),
        metadata: Default::default(),
        origin: format!("log.example/{name}"),
        submission_prefix: prefix.clone(),
        monitoring_prefix: prefix,
        also_at: None,
        key: lucarne_ct::LogKey::from_seed(&[7; 32]).unwrap().into(),
        policy: Default::default(),
        verification: Arc::default(),
        period: Duration::from_millis(5),
        pool_size: 10_000,
        lanes: Default::default(),
        checkpoint_interval: Duration::from_secs(5),
        cache: cache.into(),
        journal_bytes: 1 << 30,
        read_cache_bytes: 1 << 20,
        rfc6962_reads: None,
        scrub: None,
        known: None,
        instances: None,
        clock: Clock::system(),
    }
}
