//! Thresholds that judge one scenario.

use std::time::Duration;

use super::{Aggregation, Operator, Threshold};

impl Threshold {
    /// Creates a built-in threshold for a rate of `scenario`.
    pub(crate) fn of_rate(metric: &str, scenario: &str, operator: Operator, bound: f64) -> Self {
        let sign = operator.sign();
        let threshold = Threshold {
            key: metric.into(),
            expression: format!("rate{sign}{bound}"),
            abort_on_fail: false,
            delay_abort_eval: Duration::ZERO,
            metric: metric.into(),
            tags: Vec::new(),
            aggregation: Aggregation::Rate,
            operator,
            bound,
            has_unit: false,
            built_in: true,
        };
        threshold.of_scenario(scenario)
    }

    /// Restricts the threshold to one scenario.
    pub(crate) fn of_scenario(mut self, scenario: &str) -> Self {
        self.key = format!("{}{{scenario:{scenario}}}", self.metric);
        self.tags = vec![("scenario".into(), scenario.into())];
        self
    }

    /// Returns the check that this threshold judges separately, for all of `scenario`.
    pub(crate) fn judged_check(&self, scenario: &str) -> Option<&str> {
        let check = self.tags.iter().find(|(name, _)| name == "check");
        let rest = |(name, value): &(String, String)| {
            name == "check" || (name == "scenario" && value == scenario)
        };
        let all = self.metric == "checks" && self.tags.iter().all(rest);
        check.filter(|_| all).map(|(_, check)| check.as_str())
    }

    /// Returns whether this threshold covers everything that `other` would judge of `scenario`.
    pub(crate) fn judges(&self, other: &Threshold, scenario: &str) -> bool {
        let all = |(name, value): &(String, String)| name == "scenario" && value == scenario;
        self.metric == other.metric && self.tags.iter().all(all)
    }
}
