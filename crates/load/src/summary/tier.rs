//! Figures of each connector, in the format of dashboards for certificate deployments.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Summary;
use crate::Metric;
use crate::metric::milliseconds;

/// Tag that names the connector.
const TAG: &str = "connector";

/// Figures of one connector over all series with its tag, of any scenario. Figures without samples
/// are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tier {
    /// Median of request durations in milliseconds, including connecting and TLS.
    pub p50: Option<f64>,
    /// 95th percentile of request durations in milliseconds.
    pub p95: Option<f64>,
    /// 99th percentile of request durations in milliseconds.
    pub p99: Option<f64>,
    /// Longest request duration in milliseconds.
    pub max: Option<f64>,
    /// Mean of request durations in milliseconds.
    pub avg: Option<f64>,
    /// Share of failed requests, 0 to 1.
    pub error_rate: Option<f64>,
    /// Iterations that finished.
    pub iterations: u64,
}

impl Summary {
    /// Computes [`connector_tier`](Summary::connector_tier) from the series.
    pub(crate) fn tell_connectors(&mut self) {
        let planned = self.scenarios.iter().flat_map(|scenario| &scenario.tags);
        let sampled = self.series.iter().flat_map(|series| &series.tags);
        let names: BTreeSet<&String> = planned
            .chain(sampled)
            .filter(|(tag, _)| tag == TAG)
            .map(|(_, name)| name)
            .collect();
        let tiers = names
            .into_iter()
            .map(|name| (name.clone(), self.tier(name)));
        self.connector_tier = tiers.collect::<BTreeMap<_, _>>();
    }

    fn tier(&self, name: &str) -> Tier {
        let select = |metric| self.select(metric, &[(TAG, name)]);
        let mut tier = Tier {
            error_rate: match select("http_req_failed") {
                Some(Metric::Rate { good, total }) if total > 0 => Some(good as f64 / total as f64),
                _ => None,
            },
            iterations: match select("iterations") {
                Some(Metric::Counter { count }) => count,
                _ => 0,
            },
            ..Tier::default()
        };
        if let Some(Metric::Trend(durations)) = select("http_req_duration") {
            let percentile = |p| Some(milliseconds(durations.percentile(p)));
            tier.p50 = percentile(50.0);
            tier.p95 = percentile(95.0);
            tier.p99 = percentile(99.0);
            tier.max = Some(milliseconds(durations.max()));
            tier.avg = Some(milliseconds(durations.mean()));
        }
        tier
    }
}
