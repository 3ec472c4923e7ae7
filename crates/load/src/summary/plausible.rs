//! Figures that cannot be true, in damaged or changed summaries.

use super::{ScenarioSummary, Series, Summary, TagList};
use crate::metric::{Metric, is_bytes};

/// Limit of counts: no run reaches this number, and JSON has no larger exact numbers.
const MAX_COUNT: u64 = 1 << 53;

/// A figure of a summary that cannot be true.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImpossibleFigure {
    /// A time is negative or not finite.
    #[error("{figure} is {seconds}, expected a time from 0 s")]
    Time {
        /// Name of the figure.
        figure: String,
        /// Value in the summary.
        seconds: String,
    },
    /// A count is larger than the count of any run.
    #[error("{figure} is {count}, expected at most {MAX_COUNT}")]
    Count {
        /// Name of the figure.
        figure: String,
        /// Value in the summary.
        count: u64,
    },
    /// Two counts contradict each other.
    #[error("{one} is {first}, but {other} is {second}")]
    Contradiction {
        /// Name of one count.
        one: String,
        /// Value of this count.
        first: u64,
        /// Name of the other count.
        other: String,
        /// Value of the other count.
        second: u64,
    },
    /// The buckets of a histogram do not match its exact figures.
    #[error("the histogram of {0} contradicts its sum, minimum and maximum")]
    Histogram(String),
}

/// A count and its name.
type Named = (String, u64);

impl Summary {
    /// Checks that the figures can be true: times are not negative, counts have a limit, and counts
    /// of the same events do not contradict each other.
    ///
    /// # Errors
    /// The first figure that cannot be true.
    pub fn check(&self) -> Result<(), ImpossibleFigure> {
        self.check_times()?;
        self.scenarios.iter().try_for_each(check_scenario)?;
        for series in &self.series {
            for (name, metric) in &series.metrics {
                check_metric(name, &series.tags, metric)?;
            }
            check_samples(series)?;
            self.check_checks(series)?;
        }
        self.check_counts()
    }

    fn check_times(&self) -> Result<(), ImpossibleFigure> {
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
        let all = times.into_iter().chain(cpu).chain(points).chain(scenarios);
        for (figure, seconds) in all {
            if !(seconds.is_finite() && seconds >= 0.0) {
                return Err(ImpossibleFigure::Time {
                    figure: figure.to_owned(),
                    seconds: seconds.to_string(),
                });
            }
        }
        Ok(())
    }

    /// Compares the checks of one set of tags with the metric `checks`, which omits optional
    /// checks.
    fn check_checks(&self, series: &Series) -> Result<(), ImpossibleFigure> {
        let Some(Metric::Rate { good, total }) = series.metrics.get("checks") else {
            return Ok(());
        };
        let checks = self.checks.iter();
        let checks = checks.filter(|check| check.tags == series.tags);
        let (passes, fails) = checks.fold((0_u64, 0_u64), |(passes, fails), check| {
            (
                passes.saturating_add(check.passes),
                fails.saturating_add(check.fails),
            )
        });
        let tags = shown(&series.tags);
        let of_metric = |what: &str, count| (format!("{what} of the metric checks{tags}"), count);
        let of_list = |what: &str, count| (format!("{what} of all checks{tags}"), count);
        at_most(of_metric("passes", *good), of_list("passes", passes))?;
        at_most(
            of_metric("fails", total.saturating_sub(*good)),
            of_list("fails", fails),
        )
    }

    /// Checks the counts outside the series.
    fn check_counts(&self) -> Result<(), ImpossibleFigure> {
        for check in &self.checks {
            let name = format!("checks \"{}\"{}", check.name, shown(&check.tags));
            limited(&format!("passes of {name}"), check.passes)?;
            limited(&format!("fails of {name}"), check.fails)?;
        }
        for error in &self.errors {
            let name = format!("errors {} of scenario \"{}\"", error.kind, error.scenario);
            limited(&name, error.count)?;
        }
        for protocol in &self.protocols {
            let name = format!("protocols {}{}", protocol.name, shown(&protocol.tags));
            limited(&name, protocol.count)?;
        }
        for status in &self.statuses {
            let tags = shown(&status.tags);
            limited(&format!("statuses {}{tags}", status.code), status.count)?;
            let same = self.statuses.iter();
            let same = same.filter(|other| other.tags == status.tags);
            let all = same.fold(0_u64, |all, other| all.saturating_add(other.count));
            // A handshake without a request has no status.
            at_most(
                (format!("sum of statuses{tags}"), all),
                (format!("http_reqs{tags}"), self.requests(&status.tags)),
            )?;
        }
        Ok(())
    }

    fn requests(&self, tags: &TagList) -> u64 {
        let mut series = self.series.iter().filter(|series| series.tags == *tags);
        let metric = series.find_map(|series| series.metrics.get("http_reqs"));
        metric.map_or(0, Metric::samples)
    }
}

fn check_scenario(scenario: &ScenarioSummary) -> Result<(), ImpossibleFigure> {
    let named = |what: &str, count: u64| {
        let name = format!("{what} of scenario \"{}\"", scenario.name);
        (name, count)
    };
    for (what, count) in [
        ("asked", scenario.asked),
        ("started", scenario.started),
        ("completed", scenario.completed),
        ("dropped", scenario.dropped),
        ("interrupted", scenario.interrupted),
        ("usersMax", scenario.users_max),
    ] {
        limited(&named(what, count).0, count)?;
    }
    at_most(
        named(
            "completed + interrupted",
            scenario.completed + scenario.interrupted,
        ),
        named("started", scenario.started),
    )?;
    at_most(
        named("started + dropped", scenario.started + scenario.dropped),
        named("asked", scenario.asked),
    )
}

fn check_metric(name: &str, tags: &TagList, metric: &Metric) -> Result<(), ImpossibleFigure> {
    let key = || format!("{name}{}", shown(tags));
    match metric {
        Metric::Counter { .. } if is_bytes(name) => Ok(()),
        Metric::Trend(histogram) if !histogram.is_consistent() => {
            Err(ImpossibleFigure::Histogram(key()))
        }
        Metric::Rate { good, total } => {
            limited(&key(), *total)?;
            at_most(
                (format!("good of {}", key()), *good),
                ("total".to_owned(), *total),
            )
        }
        _ => limited(&key(), metric.samples()),
    }
}

/// Compares the metrics with one sample per request, and those with one sample per iteration.
fn check_samples(series: &Series) -> Result<(), ImpossibleFigure> {
    for names in [
        ["http_reqs", "http_req_failed", "http_req_duration"],
        ["iterations", "iterations_failed", "iteration_duration"],
    ] {
        let counts = names.iter().filter_map(|name| {
            let metric = series.metrics.get(*name)?;
            let key = format!("{name}{}", shown(&series.tags));
            Some((key, metric.samples()))
        });
        let counts: Vec<Named> = counts.collect();
        for pair in counts.windows(2) {
            if let [one, other] = pair
                && one.1 != other.1
            {
                return Err(contradiction(one.clone(), other.clone()));
            }
        }
    }
    Ok(())
}

fn limited(figure: &str, count: u64) -> Result<(), ImpossibleFigure> {
    if count <= MAX_COUNT {
        return Ok(());
    }
    let figure = figure.to_owned();
    Err(ImpossibleFigure::Count { figure, count })
}

fn at_most(part: Named, whole: Named) -> Result<(), ImpossibleFigure> {
    if part.1 <= whole.1 {
        Ok(())
    } else {
        Err(contradiction(part, whole))
    }
}

fn contradiction((one, first): Named, (other, second): Named) -> ImpossibleFigure {
    ImpossibleFigure::Contradiction {
        one,
        first,
        other,
        second,
    }
}

/// Formats tags as in thresholds: `{scenario:write,op:add-chain}`.
fn shown(tags: &TagList) -> String {
    if tags.is_empty() {
        return String::new();
    }
    let pairs = tags.iter().map(|(name, value)| format!("{name}:{value}"));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
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
                "sum of statuses{op:tile,scenario:read} is 18001, but \
                 http_reqs{op:tile,scenario:read} is 18000",
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
        assert!(error.contains("is 1, but http_req_"), "{error}");
    }

    /// Replaces a metric in the first series that has it.
    fn set(summary: &mut Summary, name: &str, metric: Metric) {
        let mut series = summary.series.iter_mut();
        let old = series.find_map(|series| series.metrics.get_mut(name));
        *old.unwrap() = metric;
    }
}
