//! Figures of a metric in all reports: milliseconds, with k6's names.

use crate::metric::{is_bytes, is_time_share};
use crate::report::format;
use crate::summary::ScenarioSummary;
use crate::{Histogram, Metric, Summary};

/// Figures of a trend, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) count: u64,
    pub(crate) avg: f64,
    pub(crate) min: f64,
    pub(crate) med: f64,
    pub(crate) max: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
}

impl Statistics {
    pub(crate) fn of(histogram: &Histogram) -> Self {
        let ps = histogram.percentiles(&[50.0, 90.0, 95.0, 99.0]);
        let percentile = |index: usize| ps.get(index).map_or(0.0, |p| p.as_secs_f64() * 1e3);
        Statistics {
            count: histogram.count(),
            avg: histogram.mean().as_secs_f64() * 1e3,
            min: histogram.min().as_secs_f64() * 1e3,
            med: percentile(0),
            max: histogram.max().as_secs_f64() * 1e3,
            p90: percentile(1),
            p95: percentile(2),
            p99: percentile(3),
        }
    }

    /// Returns the figures of a trend; `None` for an empty trend or another metric.
    pub(crate) fn of_metric(metric: Option<&Metric>) -> Option<Self> {
        let histogram = metric?.trend()?;
        (!histogram.is_empty()).then(|| Statistics::of(histogram))
    }

    /// Formats the figures as `avg=1.2ms`, in k6's order.
    pub(crate) fn columns(&self) -> [String; 7] {
        let figures = [
            ("avg", self.avg),
            ("min", self.min),
            ("med", self.med),
            ("max", self.max),
            ("p(90)", self.p90),
            ("p(95)", self.p95),
            ("p(99)", self.p99),
        ];
        figures.map(|(name, ms)| format!("{name}={}", format::duration(ms)))
    }
}

/// Returns the 99th percentile of the delay by the load generator before iterations.
pub(crate) fn start_delay(summary: &Summary, scenario: &ScenarioSummary) -> Option<String> {
    let tags = [("scenario", scenario.name.as_str())];
    let delay = summary.select("iteration_start_delay", &tags);
    let delay = Statistics::of_metric(delay.as_ref())?;
    Some(format::duration(delay.p99))
}

/// Returns the value of a counter; 0 for other metrics.
pub(crate) fn count(metric: Option<&Metric>) -> u64 {
    match metric {
        Some(Metric::Counter { count }) => *count,
        _ => 0,
    }
}

/// Returns the number of true values of a rate, and of all values.
pub(crate) fn share(metric: Option<&Metric>) -> (u64, u64) {
    match metric {
        Some(Metric::Rate { good, total }) => (*good, *total),
        _ => (0, 0),
    }
}

/// Returns the rate per second over `seconds`.
pub(crate) fn per(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

/// Formats a metric in one line. Trends have their columns; other metrics have k6's format.
pub(crate) fn line(name: &str, metric: &Metric, seconds: f64) -> String {
    match metric {
        Metric::Trend(histogram) => Statistics::of(histogram).columns().join(" "),
        Metric::Rate { good, total } if is_time_share(name) => {
            let [part, all] = [good, total].map(|ms| format::duration(*ms as f64));
            format!("{} {part} out of {all}", format::percent(*good, *total))
        }
        Metric::Rate { good, total } => {
            format!("{} {good} out of {total}", format::percent(*good, *total))
        }
        Metric::Counter { count } if is_bytes(name) => {
            let rate = per(*count, seconds);
            format!("{} {}/s", format::bytes(*count as f64), format::bytes(rate))
        }
        Metric::Counter { count } => {
            format!("{count} {}", format::per_second(per(*count, seconds)))
        }
        Metric::Gauge { last, min, max } => format!(
            "{} min={} max={}",
            format::significant(*last),
            format::significant(*min),
            format::significant(*max)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_time_have_units() {
        let rate = Metric::Rate {
            good: 1200,
            total: 288_000,
        };
        let time = line("vu_time_lost", &rate, 60.0);
        assert_eq!(time, "0.42% 1.2s out of 4m48s");
        assert_eq!(line("checks", &rate, 60.0), "0.42% 1200 out of 288000");
    }
}
