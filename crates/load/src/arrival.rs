//! When iterations begin: k6's executors.

mod display;
pub(crate) mod ramp;
pub(crate) mod schedule;

use std::time::Duration;

use ramp::Ramp;

/// When iterations begin.
///
/// The two by rate are an open loop: iteration `j` is due at an instant that is
/// computed beforehand, whatever the target does. The two by users are a closed
/// loop: a user begins its next iteration when its last one is over.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// `constant-arrival-rate`
    ConstantRate {
        /// How many begin.
        rate: Rate,
        /// For how long.
        duration: Duration,
        /// Who carries them out.
        open: Open,
    },
    /// `ramping-arrival-rate`: from `start` straight to each stage's target in turn.
    RampingRate {
        /// The rate at the beginning.
        start: Rate,
        /// Targets are in `start`'s time unit.
        stages: Vec<Stage>,
        /// Who carries them out.
        open: Open,
    },
    /// `constant-vus`
    ConstantUsers {
        /// How many users.
        users: u64,
        /// For how long.
        duration: Duration,
        /// End as soon as so many iterations have begun.
        iterations: Option<u64>,
    },
    /// `ramping-vus`: from `start` straight to each stage's target in turn.
    RampingUsers {
        /// How many users at the beginning.
        start: u64,
        /// Targets are numbers of users.
        stages: Vec<Stage>,
        /// End as soon as so many iterations have begun.
        iterations: Option<u64>,
    },
}

/// So many per time unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// How many.
    pub count: f64,
    /// In which time; k6's `timeUnit`.
    pub per: Duration,
}

impl Rate {
    /// So many per second.
    pub fn per_second(count: f64) -> Self {
        Rate {
            count,
            per: Duration::from_secs(1),
        }
    }

    /// The same rate, in events per second.
    pub fn as_per_second(self) -> f64 {
        self.count / self.per.as_secs_f64()
    }
}

/// One stage of a ramp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// How long it takes; zero jumps.
    pub duration: Duration,
    /// Where it leads.
    pub target: f64,
}

/// What carries out the arrivals of an open loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Open {
    /// Users made before the first arrival; k6's `preAllocatedVUs`.
    pub pre_allocated_users: u64,
    /// Users made at most; k6's `maxVUs`. When all of them are busy, arrivals wait.
    pub max_users: u64,
    /// End as soon as so many iterations have been asked for.
    pub iterations: Option<u64>,
    /// An arrival that has waited longer than this is dropped.
    pub max_start_delay: Duration,
    /// The run fails if a smaller part than this of what was asked for has
    /// begun; 0 accepts anything.
    pub min_achieved: f64,
}

impl Default for Open {
    fn default() -> Self {
        Open {
            pre_allocated_users: 0,
            max_users: 10_000,
            iterations: None,
            max_start_delay: Duration::from_secs(10),
            min_achieved: 0.99,
        }
    }
}

impl Arrivals {
    /// How long arrivals go on.
    pub fn duration(&self) -> Duration {
        match self {
            Arrivals::ConstantRate { duration, .. } | Arrivals::ConstantUsers { duration, .. } => {
                *duration
            }
            Arrivals::RampingRate { stages, .. } | Arrivals::RampingUsers { stages, .. } => {
                stages.iter().fold(Duration::ZERO, |sum, stage| {
                    sum.saturating_add(stage.duration)
                })
            }
        }
    }

    /// After so many iterations there are no more.
    pub fn iterations(&self) -> Option<u64> {
        match self {
            Arrivals::ConstantRate { open, .. } | Arrivals::RampingRate { open, .. } => {
                open.iterations
            }
            Arrivals::ConstantUsers { iterations, .. }
            | Arrivals::RampingUsers { iterations, .. } => *iterations,
        }
    }

    /// What carries out an open loop; `None` for a closed one.
    pub fn open(&self) -> Option<&Open> {
        match self {
            Arrivals::ConstantRate { open, .. } | Arrivals::RampingRate { open, .. } => Some(open),
            Arrivals::ConstantUsers { .. } | Arrivals::RampingUsers { .. } => None,
        }
    }

    /// Iterations per second, or users, over time.
    pub(crate) fn ramp(&self) -> Ramp {
        match self {
            Arrivals::ConstantRate { rate, duration, .. } => {
                Ramp::constant(rate.as_per_second(), *duration)
            }
            Arrivals::RampingRate { start, stages, .. } => {
                let unit = start.per.as_secs_f64();
                Ramp::new(start.as_per_second(), stages, |target| target / unit)
            }
            Arrivals::ConstantUsers {
                users, duration, ..
            } => Ramp::constant(*users as f64, *duration),
            Arrivals::RampingUsers { start, stages, .. } => {
                Ramp::new(*start as f64, stages, |target| target)
            }
        }
    }
}
