//! Executors in words, for reports.

use std::fmt;
use std::time::Duration;

use lucarne_x509::text::counted;

use super::{Arrivals, ExecutorConfig, Rate, Stage};

impl fmt::Display for ExecutorConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecutorConfig::ConstantArrivalRate { rate, duration, .. } => {
                write!(f, "{rate}{}", For(*duration))?;
            }
            ExecutorConfig::RampingArrivalRate { start, stages, .. } => {
                write!(f, "{start}")?;
                stages
                    .iter()
                    .try_for_each(|stage| ramp(f, stage, &unit(start.per)))?;
            }
            ExecutorConfig::ConstantVus { vus, duration, .. } => {
                write!(f, "{}{}", counted(*vus, "user"), For(*duration))?;
            }
            ExecutorConfig::RampingVus { start, stages, .. } => {
                write!(f, "{start} users")?;
                stages.iter().try_for_each(|stage| ramp(f, stage, ""))?;
            }
        }
        if self
            .arrival_rate()
            .is_some_and(|it| it.arrivals == Arrivals::Poisson)
        {
            f.write_str(", at random")?;
        }
        match self.iterations() {
            Some(goal) => write!(f, ", at most {goal} iterations"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", amount(self.count), unit(self.per))
    }
}

/// Formats a number with at most two decimals, or four if it is below 1.
fn amount(count: f64) -> String {
    let digits = if count < 1.0 { 4 } else { 2 };
    let text = format!("{count:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn unit(per: Duration) -> String {
    match per.as_secs_f64() {
        1.0 => "/s".into(),
        60.0 => "/min".into(),
        3600.0 => "/h".into(),
        _ => format!("/{per:?}"),
    }
}

fn ramp(f: &mut fmt::Formatter<'_>, stage: &Stage, unit: &str) -> fmt::Result {
    write!(f, " → {}{unit}{}", amount(stage.target), In(stage.duration))
}

struct For(Duration);

impl fmt::Display for For {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            // A time of ten years or more stands for a run without a duration.
            315_360_000.. => Ok(()),
            _ => write!(f, " for {:?}", self.0),
        }
    }
}

struct In(Duration);

impl fmt::Display for In {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " in {:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::ArrivalRateOptions;

    #[test]
    fn in_words() {
        let (rate, options) = (Rate::per_second(500.0), ArrivalRateOptions::default());
        let constant = ExecutorConfig::ConstantArrivalRate {
            rate,
            duration: Duration::from_secs(60),
            options,
        };
        assert_eq!(constant.to_string(), "500/s for 60s");
        let stages = vec![Stage {
            duration: Duration::from_secs(10),
            target: 200.0,
        }];
        let start = Rate {
            count: 100.0,
            per: Duration::from_secs(60),
        };
        let ramping = ExecutorConfig::RampingArrivalRate {
            start,
            stages: stages.clone(),
            options: ArrivalRateOptions::default(),
        };
        assert_eq!(ramping.to_string(), "100/min → 200/min in 10s");
        let users = ExecutorConfig::ConstantVus {
            vus: 1,
            duration: Duration::MAX,
            iterations: Some(5),
        };
        assert_eq!(users.to_string(), "1 user, at most 5 iterations");
        let users = ExecutorConfig::RampingVus {
            start: 0,
            stages,
            iterations: None,
        };
        assert_eq!(users.to_string(), "0 users → 200 in 10s");
        let shown = |rate| Rate::per_second(rate).to_string();
        assert_eq!(shown(500.0 / 3.0), "166.67/s");
        assert_eq!(
            (shown(0.018_46), shown(100.0)),
            ("0.0185/s".into(), "100/s".into())
        );
    }
}
