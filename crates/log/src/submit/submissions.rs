//! The state that all submissions of one log share, across all of its sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use lucarne_ct::{Chain, EntryKind, Rejection, Roots, Validator};
use tokio::sync::watch;

use crate::config::LogConfig;
use crate::config::lane::Lane;
use crate::read::reader::Reader;
use crate::status::log_status::LogStatus;
use crate::status::metrics::LogMetrics;
use crate::submit::batches::Batches;
use crate::submit::duplicate_limit::Duplicates;
use crate::submit::pool::{Pool, SealedRound};
use crate::submit::sct_signatures::SctSignatures;
use crate::submit::session::Session;
use crate::submit::steps::RoundTimes;

/// The submissions of one log. The steps of a submission are in `submission`.
pub(crate) struct Submissions {
    pub(super) config: Arc<LogConfig>,
    pub(super) reader: Arc<Reader>,
    pub(super) metrics: Arc<LogMetrics>,
    pub(super) status: Arc<LogStatus>,
    pub(super) validator: ArcSwap<Validator>,
    /// Whether some accepted roots are not loaded yet.
    awaits_roots: AtomicBool,
    pub(super) batches: Batches,
    pub(super) duplicates: Duplicates,
    /// The times of the newest rounds, for traces.
    pub(crate) round_times: RoundTimes,
    pub(crate) scts: Arc<SctSignatures>,
    /// The current session; `None` if the log is not open.
    pub(crate) session: ArcSwapOption<Session>,
    /// Number of submissions without a response. Counted only with several instances.
    pub(super) in_flight: AtomicUsize,
    /// Number of entries that readers of this process see.
    pub(super) shown: watch::Sender<u64>,
}

impl Submissions {
    pub(crate) fn new(
        config: Arc<LogConfig>,
        roots: Roots,
        (reader, status, metrics): (Arc<Reader>, Arc<LogStatus>, Arc<LogMetrics>),
    ) -> Self {
        Submissions {
            validator: ArcSwap::from_pointee(config.validator(roots)),
            awaits_roots: AtomicBool::new(false),
            batches: Batches::default(),
            duplicates: Duplicates::default(),
            round_times: RoundTimes::default(),
            scts: Arc::new(SctSignatures::new(&config, reader.clone())),
            session: ArcSwapOption::empty(),
            in_flight: AtomicUsize::new(0),
            shown: watch::Sender::default(),
            config,
            reader,
            metrics,
            status,
        }
    }

    pub(crate) fn roots(&self) -> Arc<Roots> {
        self.validator.load().roots().clone()
    }

    /// Replaces the accepted roots, from the next submission on.
    pub(crate) fn set_roots(&self, roots: Roots) {
        let validator = self.config.validator(roots);
        self.validator.store(Arc::new(validator));
    }

    /// Sets whether some accepted roots are not loaded yet.
    pub(crate) fn await_roots(&self, awaits: bool) {
        self.awaits_roots.store(awaits, Ordering::SeqCst);
    }

    /// Returns whether some accepted roots are not loaded yet.
    pub(crate) fn awaits_roots(&self) -> bool {
        self.awaits_roots.load(Ordering::SeqCst)
    }

    /// Validates a chain like the submission of a new entry. Adds no entry.
    ///
    /// # Errors
    /// The reason for the rejection.
    pub(crate) fn judge(&self, chain: &Chain) -> Result<EntryKind, Rejection> {
        let validator = self.validator.load_full();
        validator.judge(chain, self.status.now_ms())
    }

    /// Returns whether a submission to one of several instances has no response yet.
    pub(crate) fn are_in_flight(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) > 0
    }

    /// Wakes the submissions that wait until readers of this process see so many entries.
    pub(crate) fn show(&self, size: u64) {
        self.shown.send_replace(size);
    }

    /// Updates the metrics of entries that wait for a round.
    pub(crate) fn note_pool(&self, pool: &Pool) {
        let entries = |entries: usize| i64::try_from(entries).unwrap_or(i64::MAX);
        for lane in [Lane::Fresh, Lane::Old] {
            let waiting = &self.metrics.lane(lane).waiting;
            waiting.set(entries(pool.waiting(lane)));
        }
        self.metrics.pool_entries.set(entries(pool.depth()));
    }

    /// Records how long the entries of a published round have waited.
    pub(crate) fn note_waits(&self, round: &SealedRound) {
        for (lane, waited) in round.waits(tokio::time::Instant::now()) {
            let wait = &self.metrics.lane(lane).wait;
            wait.observe(waited.as_secs_f64());
        }
    }
}
