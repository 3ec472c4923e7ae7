//! The state that the handle of a log, its supervisor and its sequencer share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use lucarne_ct::{Roots, Validator};
use lucarne_storage::{Assets, Lock};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::dedup::Dedup;
use crate::issued::IssuedScts;
use crate::jump::ClockJumps;
use crate::metrics::LogMetrics;
use crate::promises::Promises;
use crate::reader::Reader;
use crate::recent::RecentStats;
use crate::scrub::status::ScrubStatus;
use crate::session::Session;
use crate::{Fatal, LogConfig, Metrics, State};

/// One log, as everybody who works for it sees it.
pub(crate) struct Shared {
    pub(crate) config: LogConfig,
    pub(crate) assets: Arc<dyn Assets>,
    pub(crate) lock: Arc<dyn Lock>,
    pub(crate) reader: Reader,
    pub(crate) metrics: LogMetrics,
    pub(crate) recent: Mutex<RecentStats>,
    pub(crate) issued: IssuedScts,
    pub(crate) promises: Promises,
    pub(crate) validator: ArcSwap<Validator>,
    pub(crate) session: ArcSwapOption<Session>,
    pub(crate) state: Mutex<State>,
    pub(crate) closing: AtomicBool,
    /// The journal is as long as it may be, and waits for its disk to be cut.
    pub(crate) stalled: AtomicBool,
    /// The index is not what it should be, and is to be made anew at the next
    /// opening. What is in memory says so even where the disk could not note it.
    pub(crate) index_failed: AtomicBool,
    pub(crate) wake: Notify,
    pub(crate) jumps: ClockJumps,
    pub(crate) scrub: ScrubStatus,
}

impl Shared {
    pub(crate) fn new(
        config: LogConfig,
        roots: Roots,
        assets: Arc<dyn Assets>,
        lock: Arc<dyn Lock>,
        metrics: &Metrics,
    ) -> Self {
        let validator = config.validator(roots);
        Shared {
            reader: Reader::new(
                assets.clone(),
                config.read_cache_bytes,
                metrics.reads_of(&config.shortname),
                metrics.damaged_of(&config.shortname),
            ),
            metrics: metrics.of(&config.shortname),
            recent: Mutex::default(),
            issued: IssuedScts::default(),
            promises: Promises::default(),
            validator: ArcSwap::from_pointee(validator),
            session: ArcSwapOption::empty(),
            state: Mutex::new(State::Starting),
            closing: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            index_failed: AtomicBool::new(false),
            wake: Notify::new(),
            jumps: ClockJumps::default(),
            scrub: ScrubStatus::default(),
            config,
            assets,
            lock,
        }
    }

    /// Unix time in milliseconds, as the clock has it that may have jumped.
    pub(crate) fn now_ms(&self) -> u64 {
        let now_ms = self.config.clock.now_ms();
        self.jumps.now_ms(now_ms, Instant::now())
    }

    /// Brings the metric of entries that the index does not know up to date.
    pub(crate) fn note_gaps(&self, dedup: &Dedup) {
        let entries = i64::try_from(dedup.gaps.entries()).unwrap_or(i64::MAX);
        self.metrics.dedup_unknown.set(entries);
    }

    pub(crate) fn set_state(&self, state: State) {
        self.metrics.up.set(i64::from(state == State::Running));
        *self.state.lock() = state;
    }

    /// Makes durable what is published up to `size`, and cuts the journal.
    ///
    /// # Errors
    /// Only where something could be lost: where all that is published is
    /// durable anyway, the journal is cut another time.
    pub(crate) async fn settle(&self, size: u64) -> Result<(), Fatal> {
        let started = Instant::now();
        match self.assets.settle(size).await {
            Err(error) if self.assets.publishes_durably() => self.neglect(&error),
            settled => {
                settled?;
                tracing::debug!(
                    log = self.config.shortname,
                    size,
                    ms = milliseconds(started.elapsed()),
                    "settled"
                );
            }
        }
        Ok(())
    }

    /// Tidying up has failed: that stops no log, and is done another time.
    pub(crate) fn neglect(&self, error: &lucarne_storage::AssetError) {
        tracing::warn!(log = self.config.shortname, %error, "not tidied up, left for later");
        self.metrics.neglected.inc();
    }

    pub(crate) fn index_is_silent(&self) -> Fatal {
        Fatal::Dedup {
            path: self.config.cache.display().to_string(),
            problem: "its disk does not answer".into(),
            damaged: false,
        }
    }
}

/// Milliseconds, to the microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}
