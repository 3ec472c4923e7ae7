//! State of one scenario that its workers share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::excuse::Excuses;
use crate::executor::Adjustable;
use crate::executor::schedule::Schedule;
use crate::part::Part;
use crate::scenario_config::ScenarioConfig;
use crate::tags::Tags;

/// State of one scenario that its workers share.
pub(crate) struct ScenarioState {
    pub(crate) config: ScenarioConfig,
    pub(crate) base: Tags,
    pub(crate) excuses: Excuses,
    pub(crate) adjustments: watch::Sender<Adjustments>,
    pub(crate) progress: Progress,
    /// Due time of the first arrival; set when all scenarios are prepared.
    pub(crate) begin: OnceLock<Instant>,
    /// Whether the scenario must be torn down.
    pub(crate) is_set_up: AtomicBool,
    /// Part of the load that this process offers.
    pub(crate) part: Part,
}

/// The part of a scenario that can change during the run.
#[derive(Debug, Clone)]
pub(crate) struct Adjustments {
    pub(crate) schedule: Schedule,
    pub(crate) stop: StopMode,
}

/// Mode of an early end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum StopMode {
    #[default]
    No,
    /// No further iterations begin.
    Gracefully,
    /// Running iterations are cut off, too.
    Now,
}

/// Counts since the beginning, over all workers.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) started: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) interrupted: AtomicU64,
    /// Iterations that finished, without idle iterations.
    pub(crate) finished: AtomicU64,
    /// Iterations that were cut off while they waited for the target.
    pub(crate) unfinished: AtomicU64,
    /// Arrivals that are waiting for a user.
    pub(crate) waiting: AtomicU64,
    pub(crate) users: AtomicU64,
    pub(crate) users_max: AtomicU64,
    pub(crate) busy: AtomicU64,
    /// Users in a pause of an iteration.
    pub(crate) pausing: Arc<AtomicU64>,
    /// Longest time to a response, in nanoseconds.
    pub(crate) longest_response: AtomicU64,
    /// Next number of a user, and next number of an iteration in a closed loop.
    pub(crate) next_user: AtomicU64,
    pub(crate) next_iteration: AtomicU64,
    /// End of the last iteration, in nanoseconds after `begin`.
    pub(crate) last_done: AtomicU64,
}

impl ScenarioState {
    pub(crate) fn new(config: ScenarioConfig, base: Tags, excuses: Excuses, part: Part) -> Self {
        let schedule = Schedule::new(config.executor.ramp(), config.executor.iterations());
        let adjustments = watch::Sender::new(Adjustments {
            schedule,
            stop: StopMode::No,
        });
        ScenarioState {
            config,
            base,
            excuses,
            adjustments,
            progress: Progress::default(),
            begin: OnceLock::new(),
            is_set_up: AtomicBool::new(false),
            part,
        }
    }

    /// Returns the elapsed time of the scenario.
    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        self.begin.get().map_or(Duration::ZERO, |begin| {
            now.saturating_duration_since(*begin)
        })
    }

    /// Returns the planned time after which no iterations begin; `None` before the scenario begins.
    pub(crate) fn end(&self) -> Option<Instant> {
        Some(*self.begin.get()? + self.adjustments.borrow().schedule.end())
    }

    pub(crate) fn stop(&self, stop: StopMode) {
        self.adjustments.send_if_modified(|adjustments| {
            let more = stop > adjustments.stop;
            adjustments.stop = adjustments.stop.max(stop);
            more
        });
    }

    /// Replaces the current factor `f` of the plan's load by `factor(f)`.
    pub(crate) fn scale(&self, factor: impl FnOnce(f64) -> f64) {
        let elapsed = self.elapsed(Instant::now());
        self.adjustments.send_modify(|adjustments| {
            let factor = factor(adjustments.schedule.factor());
            adjustments.schedule.scale(elapsed, factor);
        });
    }

    /// Returns the current iterations per second or users of the plan, without changes by keys.
    pub(crate) fn planned_now(&self) -> f64 {
        let adjustments = self.adjustments.borrow();
        let elapsed = self.elapsed(Instant::now());
        let factor = adjustments.schedule.factor();
        let planned = if factor > 0.0 {
            adjustments.schedule.rate(elapsed) / factor
        } else {
            self.config.executor.ramp().at(elapsed.as_secs_f64())
        };
        planned * self.part.fraction()
    }

    /// Returns the target at time `at`: iterations per second, or users.
    pub(crate) fn offers(&self, at: Instant) -> f64 {
        let adjustments = self.adjustments.borrow();
        match self.begin.get() {
            Some(begin) if *begin <= at && adjustments.stop == StopMode::No => {
                adjustments.schedule.rate(at - *begin) * self.part.fraction()
            }
            _ => 0.0,
        }
    }

    pub(crate) fn adjustable(&self) -> Adjustable {
        if self.config.executor.arrival_rate().is_some() {
            Adjustable::Rate
        } else {
            Adjustable::Vus
        }
    }

    pub(crate) fn control(&self) -> Control {
        let adjustments = self.adjustments.borrow();
        Control {
            scenario: self.config.name.clone(),
            kind: self.config.kind.clone(),
            adjustable: self.adjustable(),
            asked: adjustments.schedule.rate(self.elapsed(Instant::now())) * self.part.fraction(),
            factor: adjustments.schedule.factor(),
        }
    }

    /// Returns the number of iterations that were due to start by now.
    pub(crate) fn asked(&self) -> u64 {
        let progress = &self.progress;
        let begun = progress.started.load(Relaxed) + progress.dropped.load(Relaxed);
        begun + progress.waiting.load(Relaxed)
    }
}

impl Progress {
    pub(crate) fn user_came(&self) -> u64 {
        let users = self.users.fetch_add(1, Relaxed) + 1;
        self.users_max.fetch_max(users, Relaxed);
        self.next_user.fetch_add(1, Relaxed)
    }

    pub(crate) fn user_left(&self) {
        self.users.fetch_sub(1, Relaxed);
    }

    pub(crate) fn response_took(&self, time: Duration) {
        let time = time.as_nanos() as u64;
        // A load first: most responses are not the longest, and users share the value.
        if time > self.longest_response.load(Relaxed) {
            self.longest_response.fetch_max(time, Relaxed);
        }
    }

    /// Returns whether a user waits for the target.
    pub(crate) fn is_waiting(&self) -> bool {
        self.busy.load(Relaxed) > self.pausing.load(Relaxed)
    }
}

/// Adjustable quantity of one scenario, and its current value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Control {
    /// Name of the scenario.
    pub scenario: String,
    /// Kind of the scenario.
    pub kind: String,
    /// Quantity that can be changed.
    pub adjustable: Adjustable,
    /// Current target: iterations per second, or users.
    pub asked: f64,
    /// Factor by which the plan's value is multiplied; 1 without changes.
    pub factor: f64,
}

impl ScenarioState {
    /// Returns the seconds from the first arrival to the last completion.
    pub(crate) fn lasted(&self) -> f64 {
        Duration::from_nanos(self.progress.last_done.load(Relaxed)).as_secs_f64()
    }
}
