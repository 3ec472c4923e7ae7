//! State that all users of the scenario share: the logs and the issuers of their entries.

use std::time::Duration;

use lucarne_ct::Fingerprint;
use lucarne_load::PrepareError;
use parking_lot::Mutex;

use super::options::CtReadOptions;
use super::response_cache::ResponseCache;
use crate::ct::SubmissionOptions;
use crate::ct::monitored_log::{MonitoredLog, OpenedLogs};
use crate::ct::options::AuditLevel;

/// State that all users share.
pub(super) struct SharedState {
    pub(super) options: CtReadOptions,
    pub(super) seed: u64,
    pub(super) logs: OpenedLogs<Log>,
}

/// A log that is read.
pub(super) struct Log {
    pub(super) monitored: MonitoredLog,
    pub(super) cache: Option<ResponseCache>,
    /// Certificates that entries name.
    pub(super) issuers: Mutex<Vec<Fingerprint>>,
}

/// Number of issuers that are kept for random reads.
const ISSUERS: usize = 256;

impl AsRef<MonitoredLog> for Log {
    fn as_ref(&self) -> &MonitoredLog {
        &self.monitored
    }
}

impl SharedState {
    pub(super) fn new(options: CtReadOptions, seed: u64) -> Self {
        SharedState {
            options,
            seed,
            logs: OpenedLogs::default(),
        }
    }

    pub(super) async fn prepare(&self) -> Result<(), PrepareError> {
        self.logs.open(self.open()).await
    }

    async fn open(&self) -> Result<Vec<Log>, PrepareError> {
        let options = &self.options.log;
        let mut logs = Vec::new();
        for target in options.targets(&SubmissionOptions::default()).await? {
            logs.push(Log {
                monitored: MonitoredLog::begin(
                    target,
                    options,
                    AuditLevel::Inclusion,
                    Duration::MAX,
                )
                .await?,
                cache: self.options.cache.then(ResponseCache::default),
                issuers: Mutex::default(),
            });
        }
        Ok(logs)
    }
}

impl Log {
    pub(super) fn named(&self, fingerprints: impl IntoIterator<Item = Fingerprint>) {
        let mut issuers = self.issuers.lock();
        for fingerprint in fingerprints {
            if issuers.len() < ISSUERS && !issuers.contains(&fingerprint) {
                issuers.push(fingerprint);
            }
        }
    }
}
