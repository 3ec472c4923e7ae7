//! The names of everything that is checked. They are stable: thresholds, tests
//! and reports of long ago refer to them.

use std::fmt;

use lucarne_load::{Failure, Recorder, Tags};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
        /// All of them.
        pub const ALL: &[&str] = &[$($name),*];
    };
}

names! {
    /// An answer of 200 is an SCT of version 1 in JSON (RFC 6962 4.1).
    SCT_WELLFORMED = "sct_wellformed";
    /// The SCT is by this log.
    SCT_LOG_ID = "sct_log_id";
    /// Its extensions are one `leaf_index` (static-ct-api).
    SCT_INDEX = "sct_index";
    /// It is neither of the future nor, for a new entry, older than the submission.
    SCT_TIMESTAMP = "sct_timestamp";
    /// The log signed it, for what was submitted.
    SCT_SIGNATURE = "sct_signature";
    /// No index is promised to two submissions.
    SCT_INDEX_UNIQUE = "sct_index_unique";
    /// A repeated submission gets the same index and timestamp.
    DUPLICATE_SAME = "duplicate_same";
    /// A submission is answered with 200, or with 429 or 503 to come back later.
    SUBMISSION_ACCEPTED = "submission_accepted";
    /// 429 and 503 say when to come back, in seconds or as an HTTP date (RFC 9110 10.2.3).
    RETRY_AFTER = "retry_after";

    /// The checkpoint is answered with 200.
    CHECKPOINT_SERVED = "checkpoint_served";
    /// It is a signed note of a checkpoint of three lines.
    CHECKPOINT_WELLFORMED = "checkpoint_wellformed";
    /// It names this log.
    CHECKPOINT_ORIGIN = "checkpoint_origin";
    /// The log signed it.
    CHECKPOINT_SIGNATURE = "checkpoint_signature";
    /// Neither its size nor its timestamp is below one served earlier, and a larger tree
    /// has a newer timestamp (RFC 6962 3.5).
    CHECKPOINT_GROWTH = "checkpoint_growth";
    /// It is not older than it may be, nor of the future.
    CHECKPOINT_FRESH = "checkpoint_fresh";
    /// It is not older than any entry that it covers (static-ct-api, "Checkpoints").
    CHECKPOINT_TIMESTAMP = "checkpoint_timestamp";
    /// No two roots for one size.
    CHECKPOINT_FORK = "checkpoint_fork";
    /// Its tree is the verified one with leaves appended.
    CHECKPOINT_CONSISTENT = "checkpoint_consistent";

    /// A tile of a published tree is answered with 200.
    TILE_SERVED = "tile_served";
    /// It has the bytes of its width.
    TILE_WELLFORMED = "tile_wellformed";
    /// Its hashes lead to the signed root.
    TILE_CONSISTENT = "tile_consistent";
    /// A data tile holds as many entries as its width says, and nothing else.
    ENTRY_WELLFORMED = "entry_wellformed";
    /// Each entry says the index at which it is.
    ENTRY_INDEX = "entry_index";
    /// Each entry hashes to the tree's leaf.
    ENTRY_HASH = "entry_hash";
    /// A data tile holds the precertificate that was submitted.
    ENTRY_PRECERTIFICATE = "entry_precertificate";
    /// It names the chain that was submitted: in its order, and up to the root.
    ENTRY_CHAIN = "entry_chain";
    /// Every certificate that an entry names is answered with 200.
    ISSUER_SERVED = "issuer_served";
    /// It hashes to its name.
    ISSUER_HASH = "issuer_hash";
    /// Compressed answers are in a coding that was asked for, and can be decoded.
    ENCODING = "encoding";
    /// Everything is served as what it is (static-ct-api, "Monitoring APIs").
    CONTENT_TYPE = "content_type";
    /// Caches may not keep a checkpoint for long (static-ct-api, "Checkpoints").
    CACHE_CONTROL = "cache_control";
    /// Caches may keep what never changes.
    TILE_CACHE_CONTROL = "tile_cache_control";
    /// Scripts of any origin may read it.
    CORS = "cors";

    /// A certificate whose notAfter is outside of the log's window is refused.
    REFUSED_OUTSIDE_WINDOW = "refused_outside_window";
    /// A chain to a root that the log does not accept is refused.
    REFUSED_UNKNOWN_ROOT = "refused_unknown_root";
    /// A certificate whose signature does not verify is refused.
    REFUSED_BAD_SIGNATURE = "refused_bad_signature";
    /// A precertificate on add-chain is refused, a certificate on add-pre-chain too.
    REFUSED_WRONG_ENDPOINT = "refused_wrong_endpoint";
    /// A body that is no submission is refused: broken JSON, an empty chain, no certificate.
    REFUSED_MALFORMED = "refused_malformed";
    /// A path that is none is refused: no such endpoint, a tile beyond the tree.
    REFUSED_UNKNOWN_PATH = "refused_unknown_path";
    /// get-roots lists the roots that this load test's chains lead to.
    ROOTS_SERVED = "roots_served";
    /// get-roots says that its response is JSON.
    ROOTS_CONTENT_TYPE = "roots_content_type";

    /// `log.v3.json` is answered with 200.
    METADATA_SERVED = "metadata_served";

    /// A checkpoint covers the promised index within the time given.
    INCLUSION_IN_TIME = "inclusion_in_time";
    /// The promised entry is in the log.
    INCLUSION_ENTRY = "inclusion_entry";
    /// It is at the index that was promised.
    INCLUSION_INDEX = "inclusion_index";
    /// It has the timestamp that was promised.
    INCLUSION_TIMESTAMP = "inclusion_timestamp";
    /// At the end, nothing promised is missing.
    AUDIT_COMPLETE = "audit_complete";
    /// As many leaves were written as there should be (`--leaf_write_goal`).
    LEAF_WRITE_GOAL = "leaf_write_goal";
}

/// What no specification demands, and logs had better do: its failures are warnings.
pub const WARNINGS: &[&str] = &[TILE_CACHE_CONTROL, CORS, ROOTS_CONTENT_TYPE];

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check that failed: a name of this module.
    pub check: &'static str,
    /// A description for people.
    pub detail: String,
}

impl Finding {
    pub(crate) fn new(check: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { check, detail }
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

/// A sink of the outcomes of checks.
pub trait CheckSink: Send + Sync {
    /// One check was made.
    fn check(&self, name: &'static str, outcome: Result<(), String>);

    /// One check was passed.
    fn passed(&self, name: &'static str) {
        self.check(name, Ok(()));
    }

    /// One check failed.
    fn failed(&self, finding: Finding) {
        self.check(finding.check, Err(finding.detail));
    }
}

/// A recorder and the tags to record under.
#[derive(Clone, Debug)]
pub(crate) struct TaggedRecorder {
    pub(crate) recorder: Recorder,
    pub(crate) tags: Tags,
}

impl CheckSink for TaggedRecorder {
    fn check(&self, name: &'static str, outcome: Result<(), String>) {
        self.recorder.check(self.tags, name, outcome);
    }
}

/// A list of findings: for tests and for what happens before a run.
#[derive(Debug, Default)]
pub struct Findings(parking_lot::Mutex<Vec<Finding>>);

impl Findings {
    /// The findings so far.
    #[must_use]
    pub fn take(&self) -> Vec<Finding> {
        std::mem::take(&mut self.0.lock())
    }
}

impl CheckSink for Findings {
    fn check(&self, name: &'static str, outcome: Result<(), String>) {
        if let Err(detail) = outcome {
            self.0.lock().push(Finding::new(name, detail));
        }
    }
}
