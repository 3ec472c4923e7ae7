//! The parts of a log that keep its dedup index up to date.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lucarne_storage::{Assets, Lock};

use crate::config::LogConfig;
use crate::error::{DedupError, Fatal};
use crate::index::dedup::{self, Dedup};
use crate::read::reader::Reader;
use crate::status::log_status::LogStatus;
use crate::status::metrics::LogMetrics;

/// The parts of a log that its dedup index uses.
pub(crate) struct LogIndex {
    pub(super) config: Arc<LogConfig>,
    pub(super) assets: Arc<dyn Assets>,
    pub(super) lock: Arc<dyn Lock>,
    pub(super) reader: Arc<Reader>,
    pub(super) status: Arc<LogStatus>,
    metrics: Arc<LogMetrics>,
    /// Whether the index is damaged and must be rebuilt at the next opening. The flag is correct
    /// even if the disk could not store the mark.
    failed: AtomicBool,
    /// Maximum number of entries missing from the dedup index that are read before the log opens.
    /// If more are missing, they are read while the log is open.
    pub(crate) read_before_open: u64,
}

impl LogIndex {
    pub(crate) fn new(
        config: Arc<LogConfig>,
        (assets, lock): (Arc<dyn Assets>, Arc<dyn Lock>),
        (reader, status, metrics): (Arc<Reader>, Arc<LogStatus>, Arc<LogMetrics>),
    ) -> Self {
        LogIndex {
            config,
            assets,
            lock,
            reader,
            status,
            metrics,
            failed: AtomicBool::new(false),
            read_before_open: dedup::PART,
        }
    }

    /// Records whether the index must be rebuilt at the next opening.
    pub(crate) fn set_failed(&self, failed: bool) {
        self.failed.store(failed, Ordering::SeqCst);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Updates the metrics of the dedup index.
    pub(crate) fn note(&self, dedup: &Dedup) {
        let entries = |entries: u64| i64::try_from(entries).unwrap_or(i64::MAX);
        let backlog = dedup.backlog().entries();
        self.metrics.dedup_indexed.set(entries(dedup.known()));
        self.metrics.dedup_backlog.set(entries(backlog));
        self.metrics
            .dedup_unknown
            .set(entries(dedup.gaps.entries()));
    }
}

/// Returns the error for an index whose disk does not respond.
pub(crate) fn is_silent(config: &LogConfig) -> Fatal {
    Fatal::Dedup {
        path: config.cache.display().to_string(),
        problem: DedupError::Silent,
        damaged: false,
        in_use: false,
    }
}
