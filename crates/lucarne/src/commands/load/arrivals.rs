//! The flags that say when iterations begin.

use std::time::Duration;

use lucarne_load::ExecutorConfig;
use lucarne_load::executor::{ArrivalRateOptions, MOST_PER_SECOND, Rate, Stage};
use lucarne_settings::values;

use crate::commands::{FlagError, duration};

/// The load of a scenario if nothing is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    /// Users, if neither users nor a rate are asked for.
    pub(super) users: u64,
    /// For how long, if no duration is asked for.
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

/// The times at which iterations begin.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Load")]
#[group(skip)]
pub struct Flags {
    /// Iterations begun per second, whatever the target does: 500, 500/s, 100/m, 1/10s
    #[arg(long, value_name = "N[/UNIT]", value_parser = rate, conflicts_with = "vus")]
    pub rate: Option<Rate>,

    /// Users that begin their next iteration when their last one is over [default: 1; for s3 the largest --concurrency]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub vus: Option<u64>,

    /// For how long [default: 30s; as long as --iterations take at --rate; for s3 all its cells]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "stages")]
    pub duration: Option<Duration>,

    /// End after so many iterations, if they are reached earlier
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,

    /// Ramp from --rate or --vus to TARGET in TIME; several stages follow each other
    #[arg(long = "stages", alias = "stage", value_name = "TIME:TARGET,…", value_parser = stage, value_delimiter = ',')]
    pub stages: Vec<Stage>,

    /// Users that a rate may keep busy; iterations beyond wait, and count as late
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_vus: Option<u64>,

    /// Fail if a smaller part of the rate was offered than this, from 0 to 1 [default: 0.99]
    #[arg(long, value_name = "PART", value_parser = part)]
    pub min_achieved: Option<f64>,

    /// How long iterations may still take after the end
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub graceful_stop: Duration,
}

impl Flags {
    /// Returns the executor that the flags ask for, or the usual one.
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
        let goal = self
            .iterations
            .map(|goal| goal as f64 / rate.as_per_second())
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        ExecutorConfig::ConstantArrivalRate {
            rate,
            duration: self.duration.or(goal).unwrap_or(usual.duration),
            options: self.arrival_rate(),
        }
    }

    /// Returns the options of the executors that carry out a rate.
    pub fn arrival_rate(&self) -> ArrivalRateOptions {
        let default = ArrivalRateOptions::default();
        ArrivalRateOptions {
            max_vus: self.max_vus.unwrap_or(default.max_vus),
            iterations: self.iterations,
            min_achieved: self.min_achieved.unwrap_or(default.min_achieved),
            ..default
        }
    }
}

fn part(text: &str) -> Result<f64, FlagError> {
    Ok(values::decimal(0.0, 1.0)(text)?)
}

/// The reasons why a rate is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum RateError {
    #[error(transparent)]
    Value(#[from] FlagError),
    #[error("it must be greater than zero")]
    Zero,
}

/// Parses `500`, `500/s`, `100/m` or `1/10s`.
fn rate(text: &str) -> Result<Rate, RateError> {
    let (count, per) = text.split_once('/').unwrap_or((text, "s"));
    let count = decimal(count)?;
    let per = match per.starts_with(|c: char| c.is_ascii_digit()) {
        true => duration(per)?,
        false => duration(&format!("1{per}"))?,
    };
    match count > 0.0 && !per.is_zero() {
        true => Ok(Rate { count, per }),
        false => Err(RateError::Zero),
    }
}

/// The reasons why a stage is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum StageError {
    #[error(transparent)]
    Value(#[from] FlagError),
    #[error("it is not a stage such as 30s:500")]
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
