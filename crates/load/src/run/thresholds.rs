//! Default and built-in thresholds of a run.

use crate::scenario_config::ScenarioConfig;
use crate::threshold::{Operator, Threshold};

/// Minimum share of a scenario's iterations that must finish, unless the run has its own threshold.
const FINISHED: f64 = 0.99;
/// Maximum share of the users' time in waits for responses that never arrive.
const LOST: f64 = 0.01;
/// Maximum share of the users' time in waits that the target requests.
const THROTTLED: f64 = 0.1;

/// Metrics whose default thresholds the run can disable (`--allow`).
pub(crate) const MAY_BE_ALLOWED: [&str; 3] = ["target_silent", "vu_time_lost", "vu_time_throttled"];

/// Returns all thresholds of a run: the configured thresholds in `asked`, the built-in thresholds
/// without those in `allow`, and the defaults of scenarios for metrics without a configured
/// threshold.
pub(super) fn complete(
    asked: Vec<Threshold>,
    scenarios: &[ScenarioConfig],
    allow: &[String],
) -> Vec<Threshold> {
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
        let usual = of_time(planned).into_iter();
        all.extend(usual.filter(|it| {
            let allowed = allow.iter().any(|name| name == it.metric());
            !allowed && !asked.iter().any(|other| other.judges(it, &planned.name))
        }));
    }
    all
}

/// Returns the built-in thresholds on the time of users. A dead target has no results to count, so
/// that only time shows it.
///
/// With an arrival rate, a user that waits delays no other iteration, and iterations that do not
/// start or finish are counted: one lost response may outweigh the time of thousands of fast
/// responses, and has no threshold.
fn of_time(planned: &ScenarioConfig) -> Vec<Threshold> {
    let of = |metric, operator, bound| Threshold::of_rate(metric, &planned.name, operator, bound);
    let mut all = vec![
        of("vu_time_throttled", Operator::LessOrEqual, THROTTLED),
        of("target_silent", Operator::Equal, 0.0),
    ];
    if planned.executor.arrival_rate().is_none() {
        all.insert(0, of("vu_time_lost", Operator::LessOrEqual, LOST));
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
            .then(|| Threshold::of_rate("achieved_rate", name, Operator::GreaterOrEqual, least))
    });
    let finished =
        |operator, least| Threshold::of_rate("iterations_finished", &planned.name, operator, least);
    let usual = finished(Operator::GreaterOrEqual, FINISHED);
    let finished = if asked.iter().any(|it| it.judges(&usual, &planned.name)) {
        finished(Operator::Greater, 0.0)
    } else {
        usual
    };
    achieved.into_iter().chain([finished])
}
