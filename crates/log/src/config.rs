//! The operator's configuration of one log.

pub(crate) mod clock;
pub(crate) mod external_sources;
pub(crate) mod instances;
pub(crate) mod lane;
pub(crate) mod messenger;
pub(crate) mod metadata;
pub(crate) mod rounds;
pub(crate) mod scrub;
pub(crate) mod scrub_window;
pub(crate) mod signer;
pub(crate) mod witnesses;

use std::path::PathBuf;
use std::sync::Arc;

use lucarne_ct::{Policy, Require, Roots, Validator, Verification, sha256};

use crate::config::clock::Clock;
use crate::config::external_sources::KnownCheckpoints;
use crate::config::instances::Instances;
use crate::config::metadata::Metadata;
use crate::config::rounds::RoundConfig;
use crate::config::scrub::ScrubConfig;
use crate::config::signer::Signer;
use crate::config::witnesses::Witnesses;

/// The settings of one log. A setting that Sunlight also has bears the name of Sunlight's key.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Short name, unique in the process: the label in metrics and messages.
    pub shortname: String,
    /// Free text for `log.v3.json` and the pages.
    pub description: String,
    /// Additional values that the operator adds to `log.v3.json`.
    pub metadata: Metadata,
    /// The checkpoint origin: the submission prefix without scheme and
    /// trailing slash (static-ct-api, "Checkpoints").
    pub origin: String,
    /// The URL prefix for submissions, with scheme and trailing slash.
    pub submission_prefix: String,
    /// The URL prefix under which clients read tiles and checkpoints, with scheme and trailing
    /// slash.
    pub monitoring_prefix: String,
    /// A second URL prefix under which the log accepts submissions and serves reads.
    pub also_at: Option<String>,
    /// The holder of the key that signs SCTs and checkpoints.
    pub key: Signer,
    /// The policy for accepting submissions.
    pub policy: Policy,
    /// The verification of signatures, shared by all logs of a process.
    pub verification: Arc<Verification>,
    /// The rounds of the sequencer, the journal, and the cache in memory.
    pub rounds: RoundConfig,
    /// Directory of the dedup index. The index can be lost: the log rebuilds it from its own tiles.
    pub cache: PathBuf,
    /// Directory of the index of leaf hashes, if the log also serves the read API of RFC 6962;
    /// `None` otherwise. The index can be lost: the log rebuilds it from its own tiles.
    pub rfc6962_reads: Option<PathBuf>,
    /// The continuous verification of all files (scrub); `None` if it is disabled.
    pub scrub: Option<ScrubConfig>,
    /// The external sources that may know this log's newest checkpoint. The log queries them each
    /// time it opens.
    pub known: Option<Arc<dyn KnownCheckpoints>>,
    /// The witnesses and mirrors that cosign the checkpoints; `None` if there are none.
    pub witnesses: Option<Witnesses>,
    /// The configuration of this instance if the log has several; `None` if the log has only one.
    pub instances: Option<Instances>,
    /// The clock of the log: [`Clock::system`], except in tests.
    pub clock: Clock,
}

/// A shard accepts no submissions from seven days after the end of its notAfter window.
const GRACE_MS: u64 = 7 * 24 * 3600 * 1000;

impl LogConfig {
    /// Returns a validator that accepts chains to these roots under the policy of this log.
    pub(crate) fn validator(&self, roots: Roots) -> Validator {
        let (policy, verification) = (self.policy.clone(), Arc::clone(&self.verification));
        Validator::sharing(Arc::new(roots), policy, verification)
    }

    /// Returns the time at which the shard is frozen, in Unix milliseconds: seven days after the
    /// end of its notAfter window. Returns `None` for a log without a window.
    pub fn frozen_from(&self) -> Option<u64> {
        let limit = self.policy.not_after_limit?;
        Some(limit.saturating_add(GRACE_MS))
    }

    /// Returns whether the shard is frozen at `now_ms`, that is, read-only.
    pub fn retired(&self, now_ms: u64) -> bool {
        self.frozen_from().is_some_and(|from| now_ms >= from)
    }

    /// Returns a checksum of the settings that must be the same in all instances of a log. The
    /// checksum excludes the roots, because each instance loads its roots at its own time.
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

/// Returns the configuration of the log `name` in a unit test.
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
        rounds: RoundConfig {
            period: std::time::Duration::from_millis(5),
            ..RoundConfig::default()
        },
        cache: cache.into(),
        rfc6962_reads: None,
        scrub: None,
        known: None,
        witnesses: None,
        instances: None,
        clock: Clock::system(),
    }
}
