//! The status of a running log: its state, its progress and its problems.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::config::LogConfig;
use crate::status::clock_jump::ClockJumps;
use crate::status::metrics::LogMetrics;
use crate::status::recent_stats::RecentStats;
use crate::status::scrub_status::ScrubStatus;
use crate::status::state::State;
use crate::status::witness_status::WitnessStatus;

/// Time between two heartbeats of a sequencer that waits.
const HEARTBEAT: Duration = Duration::from_secs(1);

pub(crate) struct LogStatus {
    config: Arc<LogConfig>,
    metrics: Arc<LogMetrics>,
    /// The state, and the time of its last change.
    state: Mutex<(State, Instant)>,
    /// True until the first attempt to open the log has ended, successfully or not.
    starting: watch::Sender<bool>,
    closing: AtomicBool,
    /// The time when the log began to close; unset before.
    closing_since: OnceLock<tokio::time::Instant>,
    /// Whether the journal has its maximum length, and cannot be cut before a running sync has
    /// ended.
    stalled: AtomicBool,
    /// Grows with each step of the sequencer, and each second while it waits.
    heartbeat: AtomicU64,
    /// The reason why this instance cannot follow, as text for operators.
    trouble: Mutex<Option<String>>,
    /// The reason why the leader rejects requests of this instance, as text for operators.
    refusal: Mutex<Option<String>>,
    pub(crate) jumps: ClockJumps,
    pub(crate) recent: Mutex<RecentStats>,
    pub(crate) scrub: ScrubStatus,
    pub(crate) witnesses: WitnessStatus,
}

impl LogStatus {
    /// Creates the status of a log that starts.
    pub(crate) fn new(config: Arc<LogConfig>, metrics: Arc<LogMetrics>) -> Self {
        LogStatus {
            witnesses: WitnessStatus::new(config.witnesses.as_ref()),
            config,
            metrics,
            state: Mutex::new((State::Starting, Instant::now())),
            starting: watch::Sender::new(true),
            closing: AtomicBool::new(false),
            closing_since: OnceLock::new(),
            stalled: AtomicBool::new(false),
            heartbeat: AtomicU64::new(0),
            trouble: Mutex::default(),
            refusal: Mutex::default(),
            jumps: ClockJumps::default(),
            recent: Mutex::default(),
            scrub: ScrubStatus::default(),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().0.clone()
    }

    /// Returns the time since the state changed.
    pub(crate) fn state_age(&self) -> Duration {
        self.state.lock().1.elapsed()
    }

    pub(crate) fn set_state(&self, state: State) {
        let leads = state == State::Running;
        let takes = leads || matches!(state, State::Following { leader: Some(_) });
        self.metrics.up.set(i64::from(takes));
        self.metrics.leads.set(i64::from(leads));
        let starting = state == State::Starting;
        let mut known = self.state.lock();
        if known.0 != state {
            *known = (state, Instant::now());
        }
        drop(known);
        self.starting.send_replace(starting);
    }

    /// Returns a receiver of `true` while the log opens for the first time.
    pub(crate) fn starting(&self) -> watch::Receiver<bool> {
        self.starting.subscribe()
    }

    /// Records that the log is being closed. If this is called again, the time of the first call
    /// remains.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        let _ = self.closing_since.set(tokio::time::Instant::now());
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Returns the time when the log began to close; `None` if the log is not being closed.
    pub(crate) fn closing_since(&self) -> Option<tokio::time::Instant> {
        self.closing_since.get().copied()
    }

    pub(crate) fn set_stalled(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::SeqCst);
    }

    /// Returns whether the journal has its maximum length, so that submissions are refused until a
    /// sync ends.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::SeqCst)
    }

    /// Records that the sequencer progresses.
    pub(crate) fn beat(&self) {
        self.heartbeat.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of heartbeats so far.
    pub(crate) fn heartbeat(&self) -> u64 {
        self.heartbeat.load(Ordering::Relaxed)
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

    /// Returns Unix time in milliseconds, corrected for jumps of the clock.
    pub(crate) fn now_ms(&self) -> u64 {
        let now_ms = self.config.clock.now_ms();
        self.jumps.now_ms(now_ms, Instant::now())
    }

    /// Records why this instance cannot follow, and logs each change once.
    pub(crate) fn note_trouble(&self, trouble: Option<String>) {
        if !is_news(&self.trouble, &trouble) {
            return;
        }
        let log = &self.config.shortname;
        match trouble {
            Some(problem) => tracing::warn!(log, problem, "this instance cannot follow the log"),
            None => tracing::info!(log, "this instance follows the log again"),
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

    /// Returns the reason why this instance cannot follow, or else why it cannot forward
    /// submissions; `None` if it can do both.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().clone();
        trouble.or_else(|| self.refusal.lock().clone())
    }
}

/// Records the current text, and returns whether it has changed.
fn is_news(noted: &Mutex<Option<String>>, now: &Option<String>) -> bool {
    let mut noted = noted.lock();
    let news = *noted != *now;
    noted.clone_from(now);
    news
}
