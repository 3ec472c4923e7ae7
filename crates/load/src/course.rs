//! One scenario of a run, as its workers share it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::arrival::schedule::Schedule;
use crate::run::{Control, Dial};
use crate::{Planned, Tags};

/// One scenario of a run, as its workers share it.
pub(crate) struct Course {
    pub(crate) plan: Planned,
    pub(crate) base: Tags,
    pub(crate) orders: watch::Sender<Orders>,
    pub(crate) progress: Progress,
    /// When its first arrival is due; set once all scenarios are prepared.
    pub(crate) begin: OnceLock<Instant>,
}

/// What may change while a scenario runs.
#[derive(Debug, Clone)]
pub(crate) struct Orders {
    pub(crate) schedule: Schedule,
    pub(crate) halt: Halt,
}

/// Whether a run is to end before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Halt {
    #[default]
    No,
    /// No more iterations begin.
    Gracefully,
    /// Those that run are cut off, too.
    Now,
}

/// Counts since the beginning, over all workers.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) started: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) interrupted: AtomicU64,
    /// Arrivals that wait for a user now.
    pub(crate) waiting: AtomicU64,
    pub(crate) users: AtomicU64,
    pub(crate) users_max: AtomicU64,
    pub(crate) busy: AtomicU64,
    /// Numbers given to users, and to iterations of a closed loop.
    pub(crate) next_user: AtomicU64,
    pub(crate) next_iteration: AtomicU64,
    /// When the last iteration was over, in nanoseconds after `begin`.
    pub(crate) last_done: AtomicU64,
}

impl Course {
    pub(crate) fn new(plan: Planned, base: Tags) -> Self {
        let schedule = Schedule::new(plan.arrivals.ramp(), plan.arrivals.iterations());
        let orders = watch::Sender::new(Orders {
            schedule,
            halt: Halt::No,
        });
        Course {
            plan,
            base,
            orders,
            progress: Progress::default(),
            begin: OnceLock::new(),
        }
    }

    /// How far the scenario is.
    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        self.begin.get().map_or(Duration::ZERO, |begin| {
            now.saturating_duration_since(*begin)
        })
    }

    /// When no more iterations begin, as planned; the distant future before the begin.
    pub(crate) fn end(&self) -> Option<Instant> {
        Some(*self.begin.get()? + self.orders.borrow().schedule.end())
    }

    pub(crate) fn halt(&self, halt: Halt) {
        self.orders.send_if_modified(|orders| {
            let more = halt > orders.halt;
            orders.halt = orders.halt.max(halt);
            more
        });
    }

    /// Multiplies what the plan asks for by what `factor` makes of the present factor.
    pub(crate) fn scale(&self, factor: impl FnOnce(f64) -> f64) {
        let elapsed = self.elapsed(Instant::now());
        self.orders.send_modify(|orders| {
            let factor = factor(orders.schedule.factor());
            orders.schedule.scale(elapsed, factor);
        });
    }

    /// Iterations per second, or users, that the plan asks for now, without keys.
    pub(crate) fn planned_now(&self) -> f64 {
        let orders = self.orders.borrow();
        let elapsed = self.elapsed(Instant::now());
        let factor = orders.schedule.factor();
        if factor > 0.0 {
            orders.schedule.rate(elapsed) / factor
        } else {
            self.plan.arrivals.ramp().at(elapsed.as_secs_f64())
        }
    }

    pub(crate) fn dial(&self) -> Dial {
        if self.plan.arrivals.open().is_some() {
            Dial::Rate
        } else {
            Dial::Users
        }
    }

    pub(crate) fn control(&self) -> Control {
        let orders = self.orders.borrow();
        Control {
            scenario: self.plan.name.clone(),
            kind: self.plan.kind.clone(),
            dial: self.dial(),
            asked: orders.schedule.rate(self.elapsed(Instant::now())),
            factor: orders.schedule.factor(),
        }
    }

    /// How many iterations should have begun by now.
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
}
