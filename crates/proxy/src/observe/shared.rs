//! State that the parts of the observer share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use lucarne_ct::{Fingerprint, LogList, PublicKey, Roots};
use parking_lot::Mutex;

use super::inventory::{Inventory, Note};
use super::memory::{Memory, Record};
use super::metrics::Metrics;
use super::submission::{Submission, Verified};

/// The log list in use.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) list: Option<LogList>,
    /// File or URL of the list.
    pub(crate) from: Option<String>,
    /// Time at which the list was read, in Unix milliseconds.
    pub(crate) read_ms: u64,
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// Locked only by the worker, the submitters and the pages, never by [`super::Observer::seen`].
    pub(crate) memory: Mutex<Memory>,
    pub(crate) list: ArcSwap<Listed>,
    /// Reason why the last reading failed; empty after a success.
    pub(crate) list_trouble: ArcSwap<String>,
    /// True if the remembered certificates were judged by an older list.
    pub(crate) relisted: AtomicBool,
    pub(crate) metrics: Metrics,
    /// The inventory, if a database is configured.
    pub(crate) inventory: Option<Arc<Inventory>>,
    pub(crate) roots: Arc<Roots>,
    /// URLs of the logs for submissions, without secrets.
    pub(crate) submit_to: Vec<String>,
    /// Configured public keys of the logs for submissions.
    pub(crate) submit_keys: Vec<Arc<PublicKey>>,
}

impl Shared {
    /// Notes a certificate in the inventory, if there is one: a handshake with `host`, or a new
    /// judgement.
    pub(crate) fn note(&self, record: &Record, host: Option<&str>, at_ms: u64) {
        if let Some(inventory) = &self.inventory {
            let (record, host) = (record.clone(), host.map(str::to_owned));
            inventory.note(Note {
                record,
                host,
                at_ms,
            });
        }
    }

    /// Records the outcome of offering a certificate to a log.
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
