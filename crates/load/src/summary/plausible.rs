//! Figures that cannot be true, in damaged or changed summaries.

use std::fmt::Display;

use super::{Series, Summary, TagList};
use crate::metric::{Metric, is_bytes};
use crate::tags::key;

/// Limit of counts: no run reaches this number, and JSON has no larger exact numbers.
const MAX_COUNT: u64 = 1 << 53;

/// A figure of a summary that cannot be true.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{figure} is {found}, expected {expected}")]
pub struct ImpossibleFigure {
    /// Name of the figure.
    pub figure: String,
    /// Value in the summary.
    pub found: String,
    /// Condition for the value.
    pub expected: String,
}

type Possible = Result<(), ImpossibleFigure>;

impl Summary {
    /// Checks that the figures can be true: times are not negative, counts have a limit, and counts
    /// of the same events do not contradict each other.
    ///
    /// # Errors
    /// The first figure that cannot be true.
    pub fn check(&self) -> Possible {
        self.check_times()?;
        self.check_scenarios()?;
        for series in &self.series {
            for (name, metric) in &series.metrics {
                check_metric(name, &series.tags, metric)?;
            }
            check_samples(series)?;
        }
        self.check_counts()
    }

    fn check_times(&self) -> Possible {
        let timeline = &self.timeline;
        let times = [
            ("duration", self.duration),
            ("attack", self.attack),
            ("wait", self.wait),
            ("timeline.interval", timeline.interval),
        ];
        let cpu = self.environment.process_cpu.iter();
        let cpu = cpu.map(|seconds| ("environment.processCpu", *seconds));
        let points = timeline.points.iter();
        let points = points.map(|point| ("timeline.points.at", point.at));
        let scenarios = self.scenarios.iter();
        let scenarios = scenarios.map(|scenario| ("scenarios.duration", scenario.duration));
        let mut all = times.into_iter().chain(cpu).chain(points).chain(scenarios);
        all.try_for_each(|(figure, seconds)| {
            let valid = seconds.is_finite() && seconds >= 0.0;
            require(valid, figure, seconds, "a time from 0 s")
        })
    }

    fn check_scenarios(&self) -> Possible {
        for it in &self.scenarios {
            let due = it.started.saturating_add(it.dropped);
            let ended = it.completed.saturating_add(it.interrupted);
            for (figure, count, most) in [
                ("usersMax", it.users_max, MAX_COUNT),
                ("asked", it.asked, MAX_COUNT),
                ("started + dropped", due, it.asked),
                ("completed + interrupted", ended, it.started),
            ] {
                at_most(
                    &format!("{figure} of scenario \"{}\"", it.name),
                    count,
                    most,
                )?;
            }
        }
        Ok(())
    }

    /// Checks the counts outside the series.
    fn check_counts(&self) -> Possible {
        for check in &self.checks {
            let name = key(&format!("checks \"{}\"", check.name), &check.tags);
            at_most(&format!("passes of {name}"), check.passes, MAX_COUNT)?;
            at_most(&format!("fails of {name}"), check.fails, MAX_COUNT)?;
        }
        for error in &self.errors {
            let name = format!("errors {} of scenario \"{}\"", error.kind, error.scenario);
            at_most(&name, error.count, MAX_COUNT)?;
        }
        for protocol in &self.protocols {
            let name = key(&format!("protocols {}", protocol.name), &protocol.tags);
            at_most(&name, protocol.count, MAX_COUNT)?;
        }
        for status in &self.statuses {
            // A handshake without a request has no status.
            let same = self.statuses.iter();
            let same = same.filter(|other| other.tags == status.tags);
            let sum = same.fold(0_u64, |sum, other| sum.saturating_add(other.count));
            let name = key("sum of statuses", &status.tags);
            at_most(&name, sum, self.requests(&status.tags))?;
        }
        Ok(())
    }

    fn requests(&self, tags: &TagList) -> u64 {
        let mut series = self.series.iter().filter(|series| series.tags == *tags);
        let metric = series.find_map(|series| series.metrics.get("http_reqs"));
        metric.map_or(0, Metric::samples)
    }
}

fn check_metric(name: &str, tags: &TagList, metric: &Metric) -> Possible {
    let key = key(name, tags);
    match metric {
        Metric::Counter { .. } if is_bytes(name) => Ok(()),
        Metric::Trend(histogram) if !histogram.is_consistent() => {
            let expected = "a sum that its count, minimum and maximum permit";
            require(false, &key, "a contradictory histogram", expected)
        }
        Metric::Rate { good, total } => {
            at_most(&key, *total, MAX_COUNT)?;
            at_most(&format!("good of {key}"), *good, *total)
        }
        _ => at_most(&key, metric.samples(), MAX_COUNT),
    }
}

/// Compares the metrics with one sample per request, and those with one sample per iteration.
fn check_samples(series: &Series) -> Possible {
    for names in [
        ["http_reqs", "http_req_failed", "http_req_duration"],
        ["iterations", "iterations_failed", "iteration_duration"],
    ] {
        let counts = names.iter().filter_map(|name| {
            let metric = series.metrics.get(*name)?;
            Some((*name, metric.samples()))
        });
        let counts: Vec<_> = counts.collect();
        for pair in counts.windows(2) {
            if let [(one, first), (other, second)] = pair {
                let expected = format!("{second} like {other}");
                require(first == second, &key(one, &series.tags), first, expected)?;
            }
        }
    }
    Ok(())
}

fn at_most(figure: &str, count: u64, most: u64) -> Possible {
    require(count <= most, figure, count, format_args!("at most {most}"))
}

fn require(valid: bool, figure: &str, found: impl Display, expected: impl Display) -> Possible {
    if valid {
        return Ok(());
    }
    Err(ImpossibleFigure {
        figure: figure.to_owned(),
        found: found.to_string(),
        expected: expected.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn figures_that_cannot_be_true_are_named() {
        type Change = fn(&mut Summary);
        assert_eq!(sample::summary().check(), Ok(()));
        let cases: [(Change, &str); 9] = [
            (
                |it| it.scenarios[0].asked = u64::MAX,
                "asked of scenario \"write\" is 18446744073709551615, expected at most \
                 9007199254740992",
            ),
            (
                |it| it.duration = -1.0,
                "duration is -1, expected a time from 0 s",
            ),
            (
                |it| it.wait = f64::INFINITY,
                "wait is inf, expected a time from 0 s",
            ),
            (
                |it| it.scenarios[1].duration = f64::NAN,
                "scenarios.duration is NaN, expected a time from 0 s",
            ),
            (
                |it| it.scenarios[1].interrupted = 7,
                "completed + interrupted of scenario \"read\" is ",
            ),
            (
                |it| it.scenarios[0].dropped += 1,
                "started + dropped of scenario \"write\" is ",
            ),
            (
                |it| it.statuses[4].count += 1,
                "sum of statuses{op:tile,scenario:read} is 18001, expected at most 18000",
            ),
            (
                |it| it.checks[1].fails = u64::MAX,
                "fails of checks \"leaf index\"",
            ),
            (
                |it| set(it, "http_req_failed", Metric::Rate { good: 5, total: 4 }),
                "good of http_req_failed{",
            ),
        ];
        for (change, expected) in cases {
            let mut summary = sample::summary();
            change(&mut summary);
            let error = summary.check().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn metrics_of_the_same_requests_have_the_same_number_of_samples() {
        let mut summary = sample::summary();
        set(&mut summary, "http_reqs", Metric::Counter { count: 1 });
        let error = summary.check().unwrap_err().to_string();
        assert!(
            error.contains("is 1, expected ") && error.contains(" like http_req_"),
            "{error}"
        );
    }

    /// Replaces a metric in the first series that has it.
    fn set(summary: &mut Summary, name: &str, metric: Metric) {
        let mut series = summary.series.iter_mut();
        let old = series.find_map(|series| series.metrics.get_mut(name));
        *old.unwrap() = metric;
    }
}
