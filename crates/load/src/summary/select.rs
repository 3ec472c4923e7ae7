//! Selection of metrics by name and tags.

use super::{ScenarioSummary, Series, Summary, TagList};
use crate::metric::{Metric, narrowing, sum};
use crate::tags::has;

impl Summary {
    /// Returns a metric over all series.
    pub fn total(&self, metric: &str) -> Option<Metric> {
        self.select(metric, &[])
    }

    /// Merges a metric over all series with these tags. Returns `None` without samples.
    ///
    /// Besides tags, `check` selects a check of `checks`, `status` a status of `http_reqs`, and
    /// `kind` a kind of `errors`.
    pub fn select(&self, metric: &str, tags: &[(&str, &str)]) -> Option<Metric> {
        let (narrow, rest) = narrowing(metric, tags);
        match narrow {
            Some(value) => self.narrowed(metric, value, &rest),
            None => self
                .series
                .iter()
                .filter(|series| has(&series.tags, &rest))
                .filter_map(|series| series.metrics.get(metric))
                .cloned()
                .reduce(sum),
        }
    }

    /// Returns the durations of requests, or of iterations without requests.
    #[cfg(feature = "html")]
    pub(crate) fn latency(&self, tags: &[(&str, &str)]) -> Option<Metric> {
        let requests = self.select("http_req_duration", tags);
        let requests = requests.filter(|metric| metric.samples() > 0);
        requests.or_else(|| self.select("iteration_duration", tags))
    }

    /// Returns the scenario of this name.
    pub(crate) fn scenario(&self, name: &str) -> Option<&ScenarioSummary> {
        self.scenarios.iter().find(|it| it.name == name)
    }

    /// Returns the seconds of the scenario of a series.
    pub(crate) fn seconds(&self, series: &Series) -> f64 {
        let scenario = series.tag("scenario").and_then(|name| self.scenario(name));
        scenario.map_or(self.duration, |scenario| scenario.duration)
    }

    /// Returns a metric of one check, status or kind of error.
    fn narrowed(&self, metric: &str, value: &str, tags: &[(&str, &str)]) -> Option<Metric> {
        match metric {
            "checks" => self
                .checks
                .iter()
                .filter(|check| check.name == value && has(&check.tags, tags))
                .map(|check| Metric::Rate {
                    good: check.passes,
                    total: check.passes.saturating_add(check.fails),
                })
                .reduce(sum),
            "http_reqs" => {
                let all = self.select(metric, tags)?;
                let counts = self
                    .statuses
                    .iter()
                    .filter(|status| status.code.to_string() == value && has(&status.tags, tags));
                let count = sum_of(counts.map(|status| status.count));
                matches!(all, Metric::Counter { .. }).then_some(Metric::Counter { count })
            }
            _ => {
                self.select(metric, tags)?;
                let scenario = tags.iter().find(|(name, _)| *name == "scenario");
                let counts = self.errors.iter().filter(|error| {
                    error.kind == value && scenario.is_none_or(|(_, name)| error.scenario == *name)
                });
                Some(Metric::Counter {
                    count: sum_of(counts.map(|error| error.count)),
                })
            }
        }
    }
}

impl Series {
    /// Returns the value of a tag.
    pub fn tag(&self, name: &str) -> Option<&str> {
        value(&self.tags, name)
    }
}

fn sum_of(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

fn value<'a>(tags: &'a TagList, name: &str) -> Option<&'a str> {
    tags.iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.as_str())
}
