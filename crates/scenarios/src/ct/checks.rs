//! Names of all checks. The names are stable, because thresholds, tests and old reports refer to
//! them.

use std::convert::Infallible;
use std::fmt;

use lucarne_load::{Failure, Iteration, Recorder, Tags};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
        /// All names, in the order of their definitions.
        pub const ALL: &[&str] = &[$($name),*];
    };
}

names! {
    /// A response with status 200 is an SCT of version 1 in JSON (RFC 6962, section 4.1).
    SCT_WELLFORMED = "sct_wellformed";
    /// The SCT is from this log.
    SCT_LOG_ID = "sct_log_id";
    /// The extensions of the SCT are one `leaf_index` (static-ct-api).
    SCT_INDEX = "sct_index";
    /// The timestamp of the SCT is not in the future, nor, for a new entry, before the submission.
    SCT_TIMESTAMP = "sct_timestamp";
    /// The log's signature of the SCT is valid for the submission.
    SCT_SIGNATURE = "sct_signature";
    /// No index is promised to two submissions.
    SCT_INDEX_UNIQUE = "sct_index_unique";
    /// A repeated submission receives the same index and timestamp.
    DUPLICATE_SAME = "duplicate_same";
    /// The response to a submission has status 200, or 429 or 503 with a request to retry later.
    SUBMISSION_ACCEPTED = "submission_accepted";
    /// Responses with 429 and 503 state the wait in seconds or as an HTTP date (RFC 9110, section
    /// 10.2.3).
    RETRY_AFTER = "retry_after";

    /// The checkpoint is served with status 200.
    CHECKPOINT_SERVED = "checkpoint_served";
    /// The checkpoint is a signed note of three lines.
    CHECKPOINT_WELLFORMED = "checkpoint_wellformed";
    /// The checkpoint has the origin of this log.
    CHECKPOINT_ORIGIN = "checkpoint_origin";
    /// The checkpoint has the log's signature.
    CHECKPOINT_SIGNATURE = "checkpoint_signature";
    /// Size and timestamp of a checkpoint are not below those of an earlier checkpoint, and a
    /// larger tree has a newer timestamp (RFC 6962, section 3.5).
    CHECKPOINT_GROWTH = "checkpoint_growth";
    /// The checkpoint is neither stale nor from the future.
    CHECKPOINT_FRESH = "checkpoint_fresh";
    /// The checkpoint is not older than any entry that it covers (static-ct-api, "Checkpoints").
    CHECKPOINT_TIMESTAMP = "checkpoint_timestamp";
    /// Checkpoints of the same size have the same root.
    CHECKPOINT_FORK = "checkpoint_fork";
    /// The tree of the checkpoint is the verified tree with further leaves.
    CHECKPOINT_CONSISTENT = "checkpoint_consistent";

    /// A tile of a published tree is served with status 200.
    TILE_SERVED = "tile_served";
    /// The length of the tile matches its width.
    TILE_WELLFORMED = "tile_wellformed";
    /// The hashes of the tile lead to the signed root.
    TILE_CONSISTENT = "tile_consistent";
    /// A data tile has exactly as many valid entries as its width.
    ENTRY_WELLFORMED = "entry_wellformed";
    /// Each entry contains its own index.
    ENTRY_INDEX = "entry_index";
    /// Each entry hashes to the leaf of the tree.
    ENTRY_HASH = "entry_hash";
    /// The data tile has the submitted precertificate.
    ENTRY_PRECERTIFICATE = "entry_precertificate";
    /// The entry names the submitted chain, in its order and up to the root.
    ENTRY_CHAIN = "entry_chain";
    /// Every certificate that an entry names is served with status 200.
    ISSUER_SERVED = "issuer_served";
    /// The certificate hashes to its name.
    ISSUER_HASH = "issuer_hash";
    /// Compressed responses have a requested coding, and can be decoded.
    ENCODING = "encoding";
    /// Files have the specified media type (static-ct-api, "Monitoring APIs").
    CONTENT_TYPE = "content_type";
    /// The headers do not permit caches to keep a checkpoint for more than a minute (static-ct-api,
    /// "Checkpoints").
    CACHE_CONTROL = "cache_control";
    /// The headers permit caches to keep immutable files.
    TILE_CACHE_CONTROL = "tile_cache_control";
    /// Scripts of any origin may read the file.
    CORS = "cors";

    /// A certificate whose notAfter is outside the log's interval is refused.
    REFUSED_OUTSIDE_WINDOW = "refused_outside_window";
    /// A chain to a root that the log does not accept is refused.
    REFUSED_UNKNOWN_ROOT = "refused_unknown_root";
    /// A certificate with an invalid signature is refused.
    REFUSED_BAD_SIGNATURE = "refused_bad_signature";
    /// A precertificate on add-chain is refused, and a certificate on add-pre-chain.
    REFUSED_WRONG_ENDPOINT = "refused_wrong_endpoint";
    /// A malformed submission is refused: broken JSON, an empty chain, or no certificate.
    REFUSED_MALFORMED = "refused_malformed";
    /// An unknown path is refused: no endpoint, or a tile beyond the tree.
    REFUSED_UNKNOWN_PATH = "refused_unknown_path";
    /// get-roots lists the roots of this load test's chains.
    ROOTS_SERVED = "roots_served";
    /// The response of get-roots has the media type of JSON.
    ROOTS_CONTENT_TYPE = "roots_content_type";

    /// `log.v3.json` is not refused with status 403, 429 or 5xx before the run.
    METADATA_SERVED = "metadata_served";

    /// A checkpoint covers the promised index within the time limit.
    INCLUSION_IN_TIME = "inclusion_in_time";
    /// The promised entry is in the log.
    INCLUSION_ENTRY = "inclusion_entry";
    /// The entry is at the promised index.
    INCLUSION_INDEX = "inclusion_index";
    /// The entry has the promised timestamp.
    INCLUSION_TIMESTAMP = "inclusion_timestamp";
    /// No promised entry is missing at the end.
    AUDIT_COMPLETE = "audit_complete";
    /// The goal of written leaves (`--leaf_write_goal`) is reached.
    LEAF_WRITE_GOAL = "leaf_write_goal";
}

/// Checks of recommendations that no specification requires; their failures are warnings.
pub const WARNINGS: &[&str] = &[TILE_CACHE_CONTROL, CORS, ROOTS_CONTENT_TYPE];

/// A failed check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check, from this module.
    pub check: &'static str,
    /// Description of the failure as text.
    pub detail: String,
}

impl Finding {
    pub(crate) fn new(check: &'static str, detail: impl fmt::Display) -> Self {
        let detail = detail.to_string();
        Self { check, detail }
    }

    /// Records the failed check, which fails the iteration.
    pub(super) fn fail(self, tags: Tags, iteration: &mut Iteration) {
        let recorder = iteration.recorder();
        recorder.check(tags, self.check, Err(&self.detail));
        iteration.fail(self.into());
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.detail)
    }
}

impl From<Finding> for Failure {
    fn from(finding: Finding) -> Self {
        Failure::new(finding.check, finding.detail)
    }
}

/// Receiver of the results of checks.
pub trait CheckSink: Send + Sync {
    /// Records a passed check.
    fn passed(&self, name: &'static str);

    /// Records a failed check.
    fn failed(&self, finding: Finding);
}

impl dyn CheckSink + '_ {
    /// Records the result of a check.
    pub(crate) fn check<E: fmt::Display>(&self, name: &'static str, outcome: Result<(), E>) {
        match outcome {
            Ok(()) => self.passed(name),
            Err(error) => self.failed(Finding::new(name, error)),
        }
    }
}

/// A recorder with the tags for its records.
#[derive(Clone, Debug)]
pub(crate) struct TaggedRecorder {
    pub(crate) recorder: Recorder,
    pub(crate) tags: Tags,
}

impl TaggedRecorder {
    /// Records the result of a check.
    pub(crate) fn check<E: fmt::Display>(&self, name: &'static str, outcome: Result<(), E>) {
        self.recorder.check(self.tags, name, outcome);
    }
}

impl CheckSink for TaggedRecorder {
    fn passed(&self, name: &'static str) {
        self.check::<Infallible>(name, Ok(()));
    }

    fn failed(&self, finding: Finding) {
        self.check(finding.check, Err(finding.detail));
    }
}

/// List of findings, for tests and for checks before a run.
#[derive(Debug, Default)]
pub struct Findings(parking_lot::Mutex<Vec<Finding>>);

impl Findings {
    /// Takes the findings so far.
    #[must_use]
    pub fn take(&self) -> Vec<Finding> {
        std::mem::take(&mut self.0.lock())
    }
}

impl CheckSink for Findings {
    fn passed(&self, _: &'static str) {}

    fn failed(&self, finding: Finding) {
        self.0.lock().push(finding);
    }
}
