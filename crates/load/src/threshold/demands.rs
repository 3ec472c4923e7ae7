//! The thresholds that a run has although nobody asked for them.

use std::time::Duration;

use super::{Aggregation, Operator, Threshold};
use crate::scenario_config::ScenarioConfig;

/// The part of a scenario's iterations that must come to their end, unless the run says
/// something else of it.
const FINISHED: f64 = 0.99;

/// Returns all thresholds of a run: those that were `asked` for, those that its scenarios
/// demand of metrics that no other threshold judges, and the built-in ones.
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

/// Enough of what a scenario was asked for has begun, and what has begun has come to its
/// end. A scenario without a single iteration that did has no samples, and fails.
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
    let finished = match asked.iter().any(|it| it.judges(&usual, &planned.name)) {
        true => finished(Operator::Greater, 0.0),
        false => usual,
    };
    achieved.into_iter().chain([finished])
}

impl Threshold {
    /// Built in: a rate of `scenario` that must be at least so large, or larger.
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
            built_in: true,
        };
        threshold.of_scenario(scenario)
    }

    /// The same, of one scenario alone.
    fn of_scenario(mut self, scenario: &str) -> Self {
        self.key = format!("{}{{scenario:{scenario}}}", self.metric);
        self.tags = vec![("scenario".into(), scenario.into())];
        self
    }

    /// The check that this threshold judges alone, for all of `scenario`.
    pub(crate) fn judged_check(&self, scenario: &str) -> Option<&str> {
        let check = self.tags.iter().find(|(name, _)| name == "check");
        let rest = |(name, value): &(String, String)| {
            name == "check" || (name == "scenario" && value == scenario)
        };
        let all = self.metric == "checks" && self.tags.iter().all(rest);
        check.filter(|_| all).map(|(_, check)| check.as_str())
    }

    /// Returns whether this threshold judges all of what `other` would judge of `scenario`.
    fn judges(&self, other: &Threshold, scenario: &str) -> bool {
        let all = |(name, value): &(String, String)| name == "scenario" && value == scenario;
        self.metric == other.metric && self.tags.iter().all(all)
    }
}
