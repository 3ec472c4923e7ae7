//! When iterations begin: k6's executors.

use std::time::Duration;

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
