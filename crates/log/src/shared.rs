//! The state that a log's handle, supervisor and sequencer share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use lucarne_ct::{Roots, Validator};
use lucarne_storage::{Assets, HolderId, Lock};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::sleep_until;

use crate::check::scrub::status::ScrubStatus;
use crate::config::LogConfig;
use crate::error::Fatal;
use crate::index::dedup::{self, Dedup, DedupError};
use crate::instances::config::holder_id;
use crate::instances::forward::queue::Leader;
use crate::read::reader::Reader;
use crate::read::rfc6962::state::Rfc6962;
use crate::recovery::session::Session;
use crate::recovery::turn::Turn;
use crate::sequence::clock_jump::ClockJumps;
use crate::sequence::tree::Tree;
use crate::status::metrics::{LogMetrics, Metrics};
use crate::status::recent_stats::RecentStats;
use crate::status::state::State;
use crate::submit::batches::Batches;
use crate::submit::duplicate_limit::Duplicates;
use crate::submit::issued_scts::IssuedScts;
use crate::submit::lane::Lane;
use crate::submit::pool::{Pool, SealedRound};
use crate::submit::promises::Promises;
use crate::submit::steps::RoundTimes;

/// Time between two heartbeats of a sequencer that waits.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The state of one log that all of its tasks share.
pub(crate) struct Shared {
    pub(crate) config: LogConfig,
    pub(crate) assets: Arc<dyn Assets>,
    pub(crate) lock: Arc<dyn Lock>,
    pub(crate) reader: Reader,
    pub(crate) metrics: LogMetrics,
    pub(crate) recent: Mutex<RecentStats>,
    pub(crate) round_times: RoundTimes,
    pub(crate) issued: IssuedScts,
    pub(crate) promises: Promises,
    pub(crate) duplicates: Duplicates,
    pub(crate) validator: ArcSwap<Validator>,
    /// Some accepted roots have not been read since startup.
    pub(crate) awaits_roots: AtomicBool,
    pub(crate) batches: Batches,
    pub(crate) session: ArcSwapOption<Session>,
    pub(crate) state: Mutex<State>,
    /// True until the first attempt to open the log has ended, successfully or not.
    pub(crate) starting: watch::Sender<bool>,
    /// The turn of this process to run the log. Before the turn, another process runs the log.
    pub(crate) turn: Turn,
    /// Held while this process reads the files that the other process publishes, so that a slow
    /// read does not overwrite a newer result.
    pub(crate) following: tokio::sync::Mutex<()>,
    pub(crate) closing: AtomicBool,
    /// The time from which on the log is being closed.
    pub(crate) closing_since: OnceLock<tokio::time::Instant>,
    /// The journal has reached its limit, and waits until its disk allows cutting it.
    pub(crate) stalled: AtomicBool,
    /// The index is damaged, and must be rebuilt at the next opening. This flag is correct even if
    /// the disk could not store the mark.
    pub(crate) index_failed: AtomicBool,
    pub(crate) wake: Notify,
    /// Grows with each step of the sequencer, and each second while it waits.
    pub(crate) heartbeat: AtomicU64,
    pub(crate) jumps: ClockJumps,
    pub(crate) scrub: ScrubStatus,
    /// The state of the RFC 6962 read operations, if they are enabled.
    pub(crate) rfc6962: Option<Rfc6962>,
    /// The ID of this process among the instances of the log.
    pub(crate) holder: HolderId,
    /// Submissions without a response.
    pub(crate) submitting: AtomicUsize,
    /// Wakes a follower, which reads the lock at once.
    pub(crate) nudge: Notify,
    /// The reason why this instance cannot follow, as text for operators.
    pub(crate) trouble: Mutex<Option<String>>,
    /// The reason why the leader rejects requests of this instance, as text for operators.
    pub(crate) refusal: Mutex<Option<String>>,
    /// The leading instance, or `None` if this instance leads or no leader is known.
    pub(crate) leader: watch::Sender<Option<Leader>>,
    /// Entries visible to readers of this process.
    pub(crate) shown: watch::Sender<u64>,
    /// A hash of the configuration that must be the same in all instances.
    pub(crate) configuration: [u8; 32],
    /// Maximum number of entries missing from the dedup index that are read before the log opens.
    /// If more are missing, they are read while the log is open.
    pub(crate) read_before_open: u64,
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
            round_times: RoundTimes::default(),
            issued: IssuedScts::default(),
            promises: Promises::default(),
            duplicates: Duplicates::default(),
            validator: ArcSwap::from_pointee(validator),
            awaits_roots: AtomicBool::new(false),
            batches: Batches::default(),
            session: ArcSwapOption::empty(),
            state: Mutex::new(State::Starting),
            starting: watch::Sender::new(true),
            turn: Turn::now(),
            following: tokio::sync::Mutex::default(),
            closing: AtomicBool::new(false),
            closing_since: OnceLock::new(),
            stalled: AtomicBool::new(false),
            index_failed: AtomicBool::new(false),
            wake: Notify::new(),
            heartbeat: AtomicU64::new(0),
            jumps: ClockJumps::default(),
            scrub: ScrubStatus::default(),
            rfc6962: config.rfc6962_reads.as_deref().map(Rfc6962::new),
            holder: holder_id(),
            submitting: AtomicUsize::new(0),
            nudge: Notify::new(),
            trouble: Mutex::default(),
            refusal: Mutex::default(),
            leader: watch::Sender::default(),
            shown: watch::Sender::default(),
            configuration: config.sum(),
            read_before_open: dedup::PART,
            config,
            assets,
            lock,
        }
    }

    /// Returns Unix time in milliseconds, corrected for jumps of the clock.
    pub(crate) fn now_ms(&self) -> u64 {
        let now_ms = self.config.clock.now_ms();
        self.jumps.now_ms(now_ms, Instant::now())
    }

    /// Records that the sequencer progresses.
    pub(crate) fn beat(&self) {
        self.heartbeat.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until `at`, with heartbeats.
    pub(crate) async fn beat_until(&self, at: tokio::time::Instant) {
        loop {
            self.beat();
            let now = tokio::time::Instant::now();
            if at <= now {
                return;
            }
            sleep_until(at.min(now + HEARTBEAT)).await;
        }
    }

    /// Updates the metrics of the dedup index.
    pub(crate) fn note_dedup(&self, dedup: &Dedup) {
        let entries = |entries: u64| i64::try_from(entries).unwrap_or(i64::MAX);
        let backlog = dedup.backlog().entries();
        self.metrics.dedup_indexed.set(entries(dedup.known()));
        self.metrics.dedup_backlog.set(entries(backlog));
        self.metrics
            .dedup_unknown
            .set(entries(dedup.gaps.entries()));
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

    pub(crate) fn set_state(&self, state: State) {
        let leads = state == State::Running;
        let takes = leads || matches!(state, State::Following { leader: Some(_) });
        self.metrics.up.set(i64::from(takes));
        self.metrics.leads.set(i64::from(leads));
        let starting = state == State::Starting;
        *self.state.lock() = state;
        self.starting.send_replace(starting);
    }

    /// Shows a committed tree and its checkpoint to readers of this process.
    pub(crate) fn show(&self, tree: &Arc<Tree>, checkpoint: &Bytes) {
        let metrics = &self.metrics;
        metrics.tree_size.set(tree.size() as i64);
        metrics
            .checkpoint_timestamp
            .set((tree.timestamp_ms / 1000) as i64);
        metrics.note_storage(self.assets.stats());
        metrics
            .read_cache
            .set(i64::try_from(self.reader.cached_bytes()).unwrap_or(i64::MAX));
        let published = crate::status::state::Published {
            size: tree.size(),
            root: tree.root,
            timestamp_ms: tree.timestamp_ms,
            checkpoint: checkpoint.clone(),
            at: Instant::now(),
        };
        self.reader.publish(published, Some(tree.clone()));
        self.shown.send_replace(tree.size());
    }

    /// Records why this instance cannot follow, and logs each change once.
    pub(crate) fn note_trouble(&self, trouble: Option<String>) {
        if !is_news(&self.trouble, &trouble) {
            return;
        }
        let log = &self.config.shortname;
        match trouble {
            Some(problem) => tracing::warn!(log, problem, "cannot follow"),
            None => tracing::info!(log, "follows again"),
        }
    }

    /// Records why the leading instance rejects requests of this instance, and logs each change
    /// once.
    pub(crate) fn note_refusal(&self, refusal: Option<String>) {
        if !is_news(&self.refusal, &refusal) {
            return;
        }
        let log = &self.config.shortname;
        match refusal {
            Some(problem) => {
                tracing::warn!(log, problem, "cannot forward submissions to the leader")
            }
            None => tracing::info!(log, "forwarding submissions to the leader again"),
        }
    }

    /// Syncs storage up to `size`, and cuts the journal.
    ///
    /// # Errors
    /// If data could be lost. If published files are durable anyway, an error is only logged, and
    /// the journal is cut later.
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

    /// Logs a failed cleanup. The log continues, and retries the cleanup later.
    pub(crate) fn neglect(&self, error: &lucarne_storage::AssetError) {
        tracing::warn!(log = self.config.shortname, %error, "cannot remove superseded files: \
                                                             retrying later");
        self.metrics.neglected.inc();
    }

    pub(crate) fn index_is_silent(&self) -> Fatal {
        Fatal::Dedup {
            path: self.config.cache.display().to_string(),
            problem: DedupError::Silent,
            damaged: false,
            in_use: false,
        }
    }
}

/// Records the current text, and returns whether it has changed.
fn is_news(noted: &Mutex<Option<String>>, now: &Option<String>) -> bool {
    let mut noted = noted.lock();
    let news = *noted != *now;
    noted.clone_from(now);
    news
}

/// Converts a duration to milliseconds, with a resolution of one microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}
