//! Metrics out of a summary, by name and tags.

use super::{Summary, TagList};
use crate::Metric;

impl Summary {
    /// A metric over everything.
    pub fn total(&self, metric: &str) -> Option<Metric> {
        self.select(metric, &[])
    }

    /// A metric over all series that have these tags, added up. `None` if there
    /// are no samples.
    ///
    /// Besides tags there are `check` for `checks` (a check's name), `status` for
    /// `http_reqs`, and `kind` for `errors`.
    pub fn select(&self, metric: &str, tags: &[(&str, &str)]) -> Option<Metric> {
        let narrow = narrowing(metric).and_then(|name| tags.iter().find(|(tag, _)| *tag == name));
        let rest: Vec<_> = tags
            .iter()
            .filter(|tag| Some(*tag) != narrow)
            .copied()
            .collect();
        match narrow {
            Some(narrow) => self.narrowed(metric, narrow.1, &rest),
            None => self
                .series
                .iter()
                .filter(|series| has(&series.tags, &rest))
                .filter_map(|series| series.metrics.get(metric))
                .cloned()
                .reduce(sum),
        }
    }

    /// A metric of one check, status or kind of error.
    fn narrowed(&self, metric: &str, value: &str, tags: &[(&str, &str)]) -> Option<Metric> {
        match metric {
            "checks" => self
                .checks
                .iter()
                .filter(|check| check.name == value && has(&check.tags, tags))
                .map(|check| Metric::Rate {
                    good: check.passes,
                    total: check.passes + check.fails,
                })
                .reduce(sum),
            "http_reqs" => {
                let all = self.select(metric, tags)?;
                let counts = self
                    .statuses
                    .iter()
                    .filter(|status| status.code.to_string() == value && has(&status.tags, tags));
                let count = counts.map(|status| status.count).sum();
                matches!(all, Metric::Counter { .. }).then_some(Metric::Counter { count })
            }
            _ => {
                self.select(metric, tags)?;
                let scenario = tags.iter().find(|(name, _)| *name == "scenario");
                let counts = self.errors.iter().filter(|error| {
                    error.kind == value && scenario.is_none_or(|(_, name)| error.scenario == *name)
                });
                Some(Metric::Counter {
                    count: counts.map(|error| error.count).sum(),
                })
            }
        }
    }
}

/// What a metric can be narrowed to besides its tags.
pub(crate) fn narrowing(metric: &str) -> Option<&'static str> {
    match metric {
        "checks" => Some("check"),
        "http_reqs" => Some("status"),
        "errors" => Some("kind"),
        _ => None,
    }
}

/// Whether all of `wanted` are among `tags`.
pub(crate) fn has(tags: &[(String, String)], wanted: &[(&str, &str)]) -> bool {
    wanted.iter().all(|(name, value)| {
        tags.iter()
            .any(|(known, its)| known == name && its == value)
    })
}

pub(crate) fn sum(mut mine: Metric, theirs: Metric) -> Metric {
    mine.merge(&theirs);
    mine
}

impl super::Series {
    /// The value of one tag.
    pub fn tag(&self, name: &str) -> Option<&str> {
        value(&self.tags, name)
    }
}

fn value<'a>(tags: &'a TagList, name: &str) -> Option<&'a str> {
    tags.iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.as_str())
}
