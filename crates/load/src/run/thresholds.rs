//! Default and built-in thresholds of a run.

use crate::scenario_config::ScenarioConfig;
use crate::threshold::{Operator, Threshold};

/// Minimum share of a scenario's iterations that must finish, unless the run has its own threshold.
const FINISHED: f64 = 0.99;

/// Returns all thresholds of a run: the configured thresholds in `asked`, the built-in thresholds,
/// and the defaults of scenarios for metrics without a configured threshold.
pub(super) fn complete(asked: Vec<Threshold>, scenarios: &[ScenarioConfig]) -> Vec<Threshold> {
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

/// Returns the built-in thresholds: enough of the planned iterations have started (with an arrival
/// rate), and 99 % of the started iterations have finished. A scenario without a finished iteration
/// has no samples, and fails.
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
