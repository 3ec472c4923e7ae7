//! Default and built-in thresholds of a run.

use std::time::Duration;

use super::{Aggregation, Operator, Threshold};
use crate::scenario_config::ScenarioConfig;

/// Minimum share of a scenario's iterations that must finish, unless the run has its own threshold.
const FINISHED: f64 = 0.99;

/// Returns all thresholds of a run: the configured thresholds in `asked`, the built-in thresholds,
/// and the defaults of scenarios for metrics without a configured threshold.
pub(crate) fn complete(asked: Vec<Threshold>, scenarios: &[ScenarioConfig]) -> Vec<Threshold> {
    let mut all = asked.clone();
    for planned in scenarios {
        let unsaid = |demand: &&Threshold| !asked.iter().any(|it| it.judges(demand, &planned.name));
        let demands = planned.demands.iter().filter(unsaid).cloned();
        all.extend(demands.map(|demand| match scenarios.len() {
            1 => demand,
            _ => demand.of_scenario(&planned.name),
        }));
    }
    for planned in scenarios {
        all.extend(built_in(planned, &asked));
    }
    all
}

/// Returns the built-in thresholds: enough of the planned iterations have started, and all started
/// iterations have finished. A scenario without a finished iteration has no samples, and fails.
fn built_in(planned: &ScenarioConfig, asked: &[Threshold]) -> impl Iterator<Item = Threshold> {
    let achieved = planned.executor.arrival_rate().and_then(|options| {
        let least = options.min_achieved;
        let name = &planned.name;
        (least > 0.0)
            .then(|| Threshold::least("achieved_rate", name, Operator::GreaterOrEqual, least))
    });
    let finished =
        |operator, least| Threshold::least("iterations_finished", &planned.name, operator, least);
    let usual = finished(Operator::GreaterOrEqual, FINISHED);
    let finished = if asked.iter().any(|it| it.judges(&usual, &planned.name)) {
        finished(Operator::Greater, 0.0)
    } else {
        usual
    };
    achieved.into_iter().chain([finished])
}

impl Threshold {
    /// Creates a built-in threshold for the minimum of a rate of `scenario`.
    fn least(metric: &str, scenario: &str, operator: Operator, bound: f64) -> Self {
        let sign = match operator {
            Operator::Greater => ">",
            _ => ">=",
        };
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
    fn of_scenario(mut self, scenario: &str) -> Self {
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
    fn judges(&self, other: &Threshold, scenario: &str) -> bool {
        let all = |(name, value): &(String, String)| name == "scenario" && value == scenario;
        self.metric == other.metric && self.tags.iter().all(all)
    }
}
