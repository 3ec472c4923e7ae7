//! The state that the observer's parts share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use lucarne_ct::{Fingerprint, LogList, PublicKey, Roots};
use parking_lot::Mutex;

use super::memory::Memory;
use super::metrics::Metrics;
use super::submission::{Submission, Verified};

/// The log list in use.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) list: Option<LogList>,
    /// The source that it is from.
    pub(crate) from: Option<String>,
    /// The time when it was read.
    pub(crate) read_ms: u64,
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// Never locked by who only has something to report.
    pub(crate) memory: Mutex<Memory>,
    pub(crate) list: ArcSwap<Listed>,
    /// The reason why the list could not be read again; empty if it could.
    pub(crate) list_trouble: ArcSwap<String>,
    /// True if what is remembered was judged by an older list.
    pub(crate) relisted: AtomicBool,
    pub(crate) metrics: Metrics,
    pub(crate) roots: Arc<Roots>,
    /// The logs that chains go to, if any.
    pub(crate) submit_to: Vec<String>,
    /// The keys of those logs that were given.
    pub(crate) submit_keys: Vec<Arc<PublicKey>>,
}

impl Shared {
    /// Notes what became of offering a certificate to the log.
    pub(crate) fn submitted(&self, fingerprint: &Fingerprint, outcome: Submission) {
        self.metrics.submission(match &outcome {
            Submission::Not => return,
            Submission::Waiting(_) => "retried",
            Submission::NotNeeded(_) => "not-needed",
            Submission::NoLog(_) => "no-log",
            Submission::Accepted {
                verified: Verified::No(_),
                ..
            } => "accepted-invalid",
            Submission::Accepted { .. } => "accepted",
            Submission::Refused(_) => "refused",
            Submission::Failed(_) => "failed",
        });
        let mut memory = self.memory.lock();
        if matches!(outcome, Submission::Failed(_) | Submission::NoLog(_)) {
            memory.forget_offer(fingerprint);
        }
        memory.change(fingerprint, |record| record.submission = outcome);
    }
}
