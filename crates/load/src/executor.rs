//! Start times of iterations: k6's executors.

mod display;
pub(crate) mod poisson;
pub(crate) mod ramp;
pub(crate) mod schedule;

use std::time::Duration;

use ramp::Ramp;

/// The executor of a scenario, which decides when its iterations begin.
///
/// The two executors by rate are an open loop: iteration `j` is due at a computed time, regardless
/// of the target. The two executors by users are a closed loop: a user begins its next iteration
/// when its previous iteration has finished.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use lucarne_load::executor::{ArrivalRateOptions, ExecutorConfig, Rate, Stage};
///
/// let executor = ExecutorConfig::RampingArrivalRate {
///     start: Rate::per_second(0.0),
///     stages: vec![Stage { duration: Duration::from_secs(60), target: 500.0 }],
///     options: ArrivalRateOptions::default(),
/// };
/// assert_eq!(executor.check(), Ok(()));
/// assert_eq!(executor.duration(), Duration::from_secs(60));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutorConfig {
    /// `constant-arrival-rate`: iterations start at a fixed rate.
    ConstantArrivalRate {
        /// Iterations to start per time unit.
        rate: Rate,
        /// Time during which iterations start.
        duration: Duration,
        /// VUs, and other options of the executors by rate.
        options: ArrivalRateOptions,
    },
    /// `ramping-arrival-rate`: from `start` linearly to each stage's target in turn.
    RampingArrivalRate {
        /// Rate at the beginning.
        start: Rate,
        /// Stages; targets are in `start`'s time unit.
        stages: Vec<Stage>,
        /// VUs, and other options of the executors by rate.
        options: ArrivalRateOptions,
    },
    /// `constant-vus`: a fixed number of users iterate.
    ConstantVus {
        /// Number of VUs.
        vus: u64,
        /// Time during which iterations start.
        duration: Duration,
        /// Number of iterations after which the scenario ends.
        iterations: Option<u64>,
    },
    /// `ramping-vus`: from `start` linearly to each stage's target in turn.
    RampingVus {
        /// Number of VUs at the beginning.
        start: u64,
        /// Stages; targets are numbers of users.
        stages: Vec<Stage>,
        /// Number of iterations after which the scenario ends.
        iterations: Option<u64>,
    },
}

/// Limit of a rate in iterations per second, which is higher than any machine could reach.
pub const MOST_PER_SECOND: f64 = 10_000_000.0;
const MOST_VUS: f64 = 1_000_000.0;

/// A number of events per time unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Number of events.
    pub count: f64,
    /// Time unit; k6's `timeUnit`.
    pub per: Duration,
}

impl Rate {
    /// Creates a rate per second.
    pub fn per_second(count: f64) -> Self {
        Rate {
            count,
            per: Duration::from_secs(1),
        }
    }

    /// Converts the rate to events per second.
    pub fn as_per_second(self) -> f64 {
        self.count / self.per.as_secs_f64()
    }

    /// Returns the time of this many events.
    pub fn time_of(self, events: u64) -> Option<Duration> {
        Duration::try_from_secs_f64(events as f64 / self.as_per_second()).ok()
    }
}

/// A stage of a ramp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// Duration of the stage; with zero, the value jumps to `target`.
    pub duration: Duration,
    /// Value at the end of the stage.
    pub target: f64,
}

/// Options of both executors by arrival rate.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalRateOptions {
    /// Users created before the first arrival; k6's `preAllocatedVUs`.
    pub pre_allocated_vus: u64,
    /// Limit of users; k6's `maxVUs`. While all users are busy, arrivals wait.
    pub max_vus: u64,
    /// Number of arrivals after which the scenario ends.
    pub iterations: Option<u64>,
    /// Longest wait of an arrival before it is dropped.
    pub max_start_delay: Duration,
    /// Minimum share of arrivals that must begin; otherwise the run fails. 0 accepts any share.
    pub min_achieved: f64,
    /// Distances between arrivals.
    pub arrivals: Arrivals,
}

/// Distances between the arrivals of a rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Equal distances.
    #[default]
    Even,
    /// A Poisson process: independent, exponentially distributed distances.
    Poisson,
}

impl Default for ArrivalRateOptions {
    fn default() -> Self {
        ArrivalRateOptions {
            pre_allocated_vus: 0,
            max_vus: 10_000,
            iterations: None,
            max_start_delay: Duration::from_secs(10),
            min_achieved: 0.99,
            arrivals: Arrivals::Even,
        }
    }
}

/// Reasons why an executor is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExecutorError {
    /// The time unit of a rate is zero.
    #[error("the time unit must be greater than zero")]
    TimeUnit,
    /// The rate or the number of users is invalid or too large.
    #[error("the {what} must be between 0 and {most}, found {value}")]
    Amount {
        /// `rate` or `number of users`.
        what: &'static str,
        /// Largest valid amount.
        most: f64,
        /// Configured amount.
        value: f64,
    },
    /// The duration is zero.
    #[error("the duration must be greater than zero")]
    NoTime,
}

impl ExecutorConfig {
    /// Checks that the executor is valid.
    ///
    /// # Errors
    ///
    /// If the rate or the number of users is invalid or too large, or a duration is zero.
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

    /// Returns the time during which iterations start: the duration, or the sum of the stages.
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

    /// Returns the number of iterations after which the scenario ends, if limited.
    pub fn iterations(&self) -> Option<u64> {
        match self {
            ExecutorConfig::ConstantArrivalRate { options, .. }
            | ExecutorConfig::RampingArrivalRate { options, .. } => options.iterations,
            ExecutorConfig::ConstantVus { iterations, .. }
            | ExecutorConfig::RampingVus { iterations, .. } => *iterations,
        }
    }

    /// Returns the options of an open loop; `None` for a closed loop.
    pub fn arrival_rate(&self) -> Option<&ArrivalRateOptions> {
        match self {
            ExecutorConfig::ConstantArrivalRate { options, .. }
            | ExecutorConfig::RampingArrivalRate { options, .. } => Some(options),
            ExecutorConfig::ConstantVus { .. } | ExecutorConfig::RampingVus { .. } => None,
        }
    }

    /// Returns the iterations per second or users over time.
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

/// The adjustable quantity of a running scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Adjustable {
    /// The arrival rate.
    #[default]
    Rate,
    /// The number of users.
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
