//! Metrics in the format of k6's `handleSummary`, for scripts that use it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Summary;
use crate::metric::{is_bytes, k6_values};
use crate::{Metric, Verdict};

/// A metric in the format of k6's `handleSummary`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Shown {
    /// Kind: `trend`, `rate`, `counter` or `gauge`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Unit of the values: `time` in milliseconds, `data` in bytes, or `default`.
    pub contains: &'static str,
    /// Values by k6's names: `avg`, `p(95)`, `rate`, `count`, ….
    pub values: BTreeMap<&'static str, f64>,
    /// Thresholds by expression.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub thresholds: BTreeMap<String, Kept>,
}

/// Result of a threshold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Whether the threshold passed.
    pub ok: bool,
}

impl Summary {
    /// Computes [`metrics`](Summary::metrics) from the series and the thresholds.
    pub(crate) fn tell_metrics(&mut self) {
        let names: BTreeSet<&String> = self
            .series
            .iter()
            .flat_map(|series| series.metrics.keys())
            .collect();
        let mut metrics = BTreeMap::new();
        for name in names {
            if let Some(metric) = self.total(name) {
                metrics.insert(name.clone(), self.shown(name, &metric, self.duration));
            }
            for scenario in &self.scenarios {
                let tags = [("scenario", scenario.name.as_str())];
                if let Some(metric) = self.select(name, &tags) {
                    let key = format!("{name}{{scenario:{}}}", scenario.name);
                    metrics.insert(key, self.shown(name, &metric, scenario.duration));
                }
            }
        }
        for threshold in &self.thresholds {
            // Other selections, such as `{op:add-chain}`, are included if a threshold uses them.
            let shown = match metrics.get_mut(&threshold.metric) {
                Some(shown) => shown,
                None => {
                    let (name, tags) = parts(&threshold.metric);
                    let Some(metric) = self.select(name, &tags) else {
                        continue;
                    };
                    let shown = self.shown(name, &metric, self.duration);
                    metrics.entry(threshold.metric.clone()).or_insert(shown)
                }
            };
            let kept = Kept {
                ok: threshold.passed,
            };
            shown.thresholds.insert(threshold.expression.clone(), kept);
        }
        self.metrics = metrics;
    }

    fn shown(&self, name: &str, metric: &Metric, seconds: f64) -> Shown {
        Shown {
            kind: metric.kind(),
            contains: match metric {
                Metric::Trend(_) => "time",
                _ if is_bytes(name) => "data",
                _ => "default",
            },
            values: k6_values(metric, seconds),
            thresholds: BTreeMap::new(),
        }
    }

    /// Returns the verdict in words, for the headline of a report.
    pub(crate) fn result(&self) -> String {
        if self.verdict == Verdict::Crossed && self.held() != Verdict::Crossed {
            // The audit failed, work was cut off, or the run is worse than its baseline.
            return "failed, although no threshold was crossed: see below".into();
        }
        self.verdict.to_string()
    }

    /// Returns the verdict of a finished run by its thresholds. Built-in thresholds only state that
    /// the load was offered, and nothing about its results.
    pub(crate) fn held(&self) -> Verdict {
        if self.thresholds.iter().any(|threshold| !threshold.passed) {
            Verdict::Crossed
        } else if self.thresholds.iter().all(|it| it.built_in) {
            Verdict::Unjudged
        } else {
            Verdict::Passed
        }
    }
}

/// Splits `metric{tag:value,…}` into the name of the metric and its tags.
fn parts(key: &str) -> (&str, Vec<(&str, &str)>) {
    let Some((name, tags)) = key.split_once('{') else {
        return (key, Vec::new());
    };
    let tags = tags.strip_suffix('}').unwrap_or(tags).split(',');
    let pairs = tags.filter_map(|tag| tag.split_once(':'));
    let pairs = pairs.map(|(name, value)| (name.trim(), value.trim()));
    (name.trim(), pairs.collect())
}
