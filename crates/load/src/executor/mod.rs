//! The times at which iterations begin: k6's executors.

mod display;
pub(crate) mod ramp;
pub(crate) mod schedule;

use std::time::Duration;

use ramp::Ramp;

/// The executor of a scenario, which says when its iterations begin.
///
/// The two by rate are an open loop: iteration `j` is due at an instant that is
/// computed beforehand, whatever the target does. The two by users are a closed
/// loop: a user begins its next iteration when its last one is over.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutorConfig {
    /// `constant-arrival-rate`
    ConstantArrivalRate {
        /// The rate at which iterations begin.
        rate: Rate,
        /// For how long.
        duration: Duration,
        /// The VUs that carry them out, and what else both executors by rate have.
        options: ArrivalRateOptions,
    },
    /// `ramping-arrival-rate`: from `start` straight to each stage's target in turn.
    RampingArrivalRate {
        /// The rate at the beginning.
        start: Rate,
        /// Targets are in `start`'s time unit.
        stages: Vec<Stage>,
        /// The VUs that carry them out, and what else both executors by rate have.
        options: ArrivalRateOptions,
    },
    /// `constant-vus`
    ConstantVus {
        /// The number of VUs.
        vus: u64,
        /// For how long.
        duration: Duration,
        /// End as soon as so many iterations have begun.
        iterations: Option<u64>,
    },
    /// `ramping-vus`: from `start` straight to each stage's target in turn.
    RampingVus {
        /// The number of VUs at the beginning.
        start: u64,
        /// Targets are numbers of users.
        stages: Vec<Stage>,
        /// End as soon as so many iterations have begun.
        iterations: Option<u64>,
    },
}

/// More than any machine could offer.
pub const MOST_PER_SECOND: f64 = 10_000_000.0;
const MOST_VUS: f64 = 1_000_000.0;

/// So many per time unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// The number of them.
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
    /// The time that it takes; zero jumps.
    pub duration: Duration,
    /// The value that it leads to.
    pub target: f64,
}

/// The options of both executors by arrival rate.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalRateOptions {
    /// Users made before the first arrival; k6's `preAllocatedVUs`.
    pub pre_allocated_vus: u64,
    /// Users made at most; k6's `maxVUs`. When all of them are busy, arrivals wait.
    pub max_vus: u64,
    /// End as soon as so many iterations have been asked for.
    pub iterations: Option<u64>,
    /// An arrival that has waited longer than this is dropped.
    pub max_start_delay: Duration,
    /// The run fails if a smaller part than this of what was asked for has
    /// begun; 0 accepts anything.
    pub min_achieved: f64,
}

impl Default for ArrivalRateOptions {
    fn default() -> Self {
        ArrivalRateOptions {
            pre_allocated_vus: 0,
            max_vus: 10_000,
            iterations: None,
            max_start_delay: Duration::from_secs(10),
            min_achieved: 0.99,
        }
    }
}

/// The reasons why an executor cannot be offered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExecutorError {
    /// A rate per no time.
    #[error("a time unit is longer than nothing")]
    TimeUnit,
    /// A rate or a number of users that is none, or that no machine could offer.
    #[error("a {what} is between 0 and {most}, not {value}")]
    Amount {
        /// The kind of amount.
        what: &'static str,
        /// The most there can be.
        most: f64,
        /// The amount that was given.
        value: f64,
    },
    /// A duration of zero.
    #[error("it lasts no time")]
    NoTime,
}

impl ExecutorConfig {
    /// Returns whether this can be offered at all.
    ///
    /// # Errors
    ///
    /// A rate or a number of users that is none, or that no machine could offer.
    pub fn check(&self) -> Result<(), ExecutorError> {
        let (start, stages, unit): (f64, &[Stage], f64) = match self {
            ExecutorConfig::ConstantArrivalRate { rate, .. } => {
                (rate.count, &[], rate.per.as_secs_f64())
            }
            ExecutorConfig::RampingArrivalRate { start, stages, .. } => {
                (start.count, stages, start.per.as_secs_f64())
            }
            ExecutorConfig::ConstantVus { vus, .. } => (*vus as f64, &[], 1.0),
            ExecutorConfig::RampingVus { start, stages, .. } => (*start as f64, stages, 1.0),
        };
        if unit <= 0.0 {
            return Err(ExecutorError::TimeUnit);
        }
        let (most, what) = match self.arrival_rate() {
            Some(_) => (MOST_PER_SECOND, "rate"),
            None => (MOST_VUS, "number of users"),
        };
        let values = stages.iter().map(|stage| stage.target).chain([start]);
        match values
            .map(|value| value / unit)
            .find(|value| !(0.0..=most).contains(value))
        {
            Some(value) => Err(ExecutorError::Amount { what, most, value }),
            None if self.duration().is_zero() => Err(ExecutorError::NoTime),
            None => Ok(()),
        }
    }

    /// Returns how long arrivals go on.
    pub fn duration(&self) -> Duration {
        match self {
            ExecutorConfig::ConstantArrivalRate { duration, .. }
            | ExecutorConfig::ConstantVus { duration, .. } => *duration,
            ExecutorConfig::RampingArrivalRate { stages, .. }
            | ExecutorConfig::RampingVus { stages, .. } => {
                stages.iter().fold(Duration::ZERO, |sum, stage| {
                    sum.saturating_add(stage.duration)
                })
            }
        }
    }

    /// After so many iterations there are no more.
    pub fn iterations(&self) -> Option<u64> {
        match self {
            ExecutorConfig::ConstantArrivalRate { options, .. }
            | ExecutorConfig::RampingArrivalRate { options, .. } => options.iterations,
            ExecutorConfig::ConstantVus { iterations, .. }
            | ExecutorConfig::RampingVus { iterations, .. } => *iterations,
        }
    }

    /// Returns what carries out an open loop; `None` for a closed one.
    pub fn arrival_rate(&self) -> Option<&ArrivalRateOptions> {
        match self {
            ExecutorConfig::ConstantArrivalRate { options, .. }
            | ExecutorConfig::RampingArrivalRate { options, .. } => Some(options),
            ExecutorConfig::ConstantVus { .. } | ExecutorConfig::RampingVus { .. } => None,
        }
    }

    /// Iterations per second, or users, over time.
    pub(crate) fn ramp(&self) -> Ramp {
        match self {
            ExecutorConfig::ConstantArrivalRate { rate, duration, .. } => {
                Ramp::constant(rate.as_per_second(), *duration)
            }
            ExecutorConfig::RampingArrivalRate { start, stages, .. } => {
                let unit = start.per.as_secs_f64();
                Ramp::new(start.as_per_second(), stages, |target| target / unit)
            }
            ExecutorConfig::ConstantVus { vus, duration, .. } => {
                Ramp::constant(*vus as f64, *duration)
            }
            ExecutorConfig::RampingVus { start, stages, .. } => {
                Ramp::new(*start as f64, stages, |target| target)
            }
        }
    }
}

/// The quantity that can be changed while a scenario runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Adjustable {
    /// Its arrival rate.
    #[default]
    Rate,
    /// The number of its users.
    Vus,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_offered_is_refused() {
        let second = Duration::from_secs(1);
        let constant = |count: f64, per: Duration, duration: Duration| {
            let (rate, options) = (Rate { count, per }, ArrivalRateOptions::default());
            ExecutorConfig::ConstantArrivalRate {
                rate,
                duration,
                options,
            }
            .check()
        };
        assert_eq!(constant(500.0, second, second), Ok(()));
        for count in [-1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(constant(count, second, second).is_err(), "{count}");
        }
        assert!(constant(1.0, Duration::ZERO, second).is_err());
        assert!(constant(1.0, second, Duration::ZERO).is_err());
        let stages = vec![Stage {
            duration: second,
            target: -5.0,
        }];
        assert!(
            ExecutorConfig::RampingVus {
                start: 1,
                stages,
                iterations: None
            }
            .check()
            .is_err()
        );
    }
}
