//! Flags for the start of iterations.

use std::time::Duration;

use lucarne_load::ExecutorConfig;
use lucarne_load::executor::{ArrivalRateOptions, Arrivals, MOST_PER_SECOND, Rate, Stage};
use lucarne_settings::values;

use crate::commands::{FlagError, duration};

/// Load of a scenario without load flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    /// Number of users, if neither users nor a rate are given.
    pub(super) users: u64,
    /// Duration, if none is given.
    pub(super) duration: Duration,
}

impl Default for Usual {
    fn default() -> Self {
        Usual {
            users: 1,
            duration: Duration::from_secs(30),
        }
    }
}

/// Flags for the start of iterations.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Load")]
#[group(skip)]
pub struct Flags {
    /// Iterations to start per second, regardless of the response times: 500, 500/s, 100/m, 1/10s
    #[arg(long, value_name = "N[/UNIT]", value_parser = rate, conflicts_with = "vus")]
    pub rate: Option<Rate>,

    /// Users, each of which starts an iteration when its last one has ended [default: 1; for s3 the
    /// largest --concurrency]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub vus: Option<u64>,

    /// Duration of the load [default: 30s; with --iterations and --rate, the time that they take;
    /// for s3, the time of all combinations]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "stages")]
    pub duration: Option<Duration>,

    /// End after N iterations, if this is earlier
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,

    /// Ramp from --rate or --vus to TARGET within TIME. Several stages run one after the other
    #[arg(long = "stages", alias = "stage", value_name = "TIME:TARGET,…", value_parser = stage, value_delimiter = ',')]
    pub stages: Vec<Stage>,

    /// Start the iterations of a rate at random, as a Poisson process with the seed
    #[arg(long, conflicts_with = "vus")]
    pub poisson: bool,

    /// Maximum number of busy users at a rate. Further iterations wait, and count as late
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_vus: Option<u64>,

    /// Fail if less than this part of the rate was offered, from 0 to 1 [default: 0.99]
    #[arg(long, value_name = "PART", value_parser = part)]
    pub min_achieved: Option<f64>,

    /// Time for running iterations to finish after the end
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub graceful_stop: Duration,
}

impl Flags {
    /// Returns the executor for the flags, with the usual load as the default.
    pub(super) fn executor(&self, usual: Usual) -> ExecutorConfig {
        let stages = self.stages.clone();
        match (self.rate, stages.is_empty()) {
            (Some(rate), true) => self.constant_rate(rate, usual),
            (Some(start), false) => ExecutorConfig::RampingArrivalRate {
                start,
                stages,
                options: self.arrival_rate(),
            },
            (None, true) => ExecutorConfig::ConstantVus {
                vus: self.vus.unwrap_or(usual.users),
                duration: self.duration.unwrap_or(usual.duration),
                iterations: self.iterations,
            },
            (None, false) => ExecutorConfig::RampingVus {
                start: self.vus.unwrap_or(usual.users),
                stages,
                iterations: self.iterations,
            },
        }
    }

    fn constant_rate(&self, rate: Rate, usual: Usual) -> ExecutorConfig {
        // The goal ends the run. Random arrivals need more than the average time for it in half of
        // all runs, but rarely more than ten standard deviations.
        let spread = |goal: u64| {
            if self.poisson {
                10 * goal.isqrt() + 10
            } else {
                0
            }
        };
        let goal = self.iterations;
        let goal = goal.and_then(|goal| rate.time_of(goal.saturating_add(spread(goal))));
        ExecutorConfig::ConstantArrivalRate {
            rate,
            duration: self.duration.or(goal).unwrap_or(usual.duration),
            options: self.arrival_rate(),
        }
    }

    /// Returns the options of the executors with a rate.
    pub fn arrival_rate(&self) -> ArrivalRateOptions {
        let default = ArrivalRateOptions::default();
        ArrivalRateOptions {
            max_vus: self.max_vus.unwrap_or(default.max_vus),
            iterations: self.iterations,
            arrivals: if self.poisson {
                Arrivals::Poisson
            } else {
                Arrivals::Even
            },
            min_achieved: self.min_achieved.unwrap_or(default.min_achieved),
            ..default
        }
    }
}

fn part(text: &str) -> Result<f64, FlagError> {
    Ok(values::decimal(0.0, 1.0)(text)?)
}

/// Reasons why a rate is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RateError {
    #[error(transparent)]
    Value(#[from] FlagError),
    #[error("it must be greater than zero")]
    Zero,
}

/// Parses `500`, `500/s`, `100/m` or `1/10s`.
pub(super) fn rate(text: &str) -> Result<Rate, RateError> {
    let (count, per) = text.split_once('/').unwrap_or((text, "s"));
    let count = decimal(count)?;
    let per = if per.starts_with(|c: char| c.is_ascii_digit()) {
        duration(per)?
    } else {
        duration(&format!("1{per}"))?
    };
    if count > 0.0 && !per.is_zero() {
        Ok(Rate { count, per })
    } else {
        Err(RateError::Zero)
    }
}

/// Reasons why a stage is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum StageError {
    #[error(transparent)]
    Value(#[from] FlagError),
    #[error("expected a stage such as 30s:500")]
    NoTarget,
}

/// Parses `30s:500`.
fn stage(text: &str) -> Result<Stage, StageError> {
    let (time, target) = text.split_once(':').ok_or(StageError::NoTarget)?;
    Ok(Stage {
        duration: duration(time)?,
        target: decimal(target)?,
    })
}

fn decimal(text: &str) -> Result<f64, FlagError> {
    Ok(values::decimal(0.0, MOST_PER_SECOND)(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_as_vegeta_writes_them() {
        for (text, per_second) in [
            ("500", 500.0),
            ("50/s", 50.0),
            ("120/m", 2.0),
            ("1/10s", 0.1),
        ] {
            assert_eq!(rate(text).unwrap().as_per_second(), per_second, "{text}");
        }
        for zero in ["0", "5/0s"] {
            assert_eq!(rate(zero).unwrap_err(), RateError::Zero, "{zero}");
        }
        for wrong in ["-1", "5/", "fast", "5/fortnight"] {
            let error = rate(wrong).unwrap_err();
            assert!(matches!(error, RateError::Value(_)), "{wrong}: {error}");
        }
    }

    #[test]
    fn random_arrivals_have_time_for_their_goal() {
        #[derive(clap::Parser)]
        struct Load {
            #[command(flatten)]
            flags: Flags,
        }
        let duration = |arguments: &[&str]| {
            let arguments = [&["load", "--rate=1", "--iterations=100"][..], arguments].concat();
            let load = <Load as clap::Parser>::try_parse_from(arguments).unwrap();
            load.flags.executor(Usual::default()).duration()
        };
        assert_eq!(duration(&[]), Duration::from_secs(100));
        assert_eq!(duration(&["--poisson"]), Duration::from_secs(210));
    }

    #[test]
    fn stages() {
        let expected = Stage {
            duration: Duration::from_secs(30),
            target: 500.0,
        };
        assert_eq!(stage("30s:500"), Ok(expected));
        assert_eq!(stage("30s"), Err(StageError::NoTarget));
        for wrong in ["30:5", "30s:x"] {
            let error = stage(wrong).unwrap_err();
            assert!(matches!(error, StageError::Value(_)), "{wrong}: {error}");
        }
    }
}
