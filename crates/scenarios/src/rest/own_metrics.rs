//! Counters and rates that a plan defines.

use lucarne_load::OwnMetrics;
use lucarne_load::threshold::is_of_every_scenario;

use super::phases;
use super::request::Request;
use super::response_checks::CheckError;
use crate::interned::intern;

/// Reasons why a counter or a rate of a plan is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MetricError {
    #[error("expected letters, digits and `_`")]
    Name,
    #[error("is a built-in metric: use another name")]
    BuiltIn,
    #[error("`{0}` is an ending of exported metrics: use another name")]
    Ending(&'static str),
    #[error(transparent)]
    Condition(#[from] CheckError),
}

/// Further names of exported metrics.
const EXPORTED: [&str; 6] = [
    "check_fails",
    "check_passes",
    "failures",
    "responses",
    "series_dropped",
    "threshold_crossed",
];

/// Endings that the export of metrics adds to names.
const ENDINGS: [&str; 5] = ["_bytes", "_samples", "_seconds", "_total", "_true"];

/// Returns the static copy of a metric's name.
pub(super) fn name(name: &str) -> Result<&'static str, MetricError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !begins || !name.chars().all(allowed) {
        return Err(MetricError::Name);
    }
    let of_phases = phases::METRICS.iter().any(|(known, _)| *known == name);
    if is_of_every_scenario(name) || of_phases || EXPORTED.contains(&name) {
        return Err(MetricError::BuiltIn);
    }
    if let Some(ending) = ENDINGS.into_iter().find(|it| name.ends_with(it)) {
        return Err(MetricError::Ending(ending));
    }
    Ok(intern(name))
}

/// A plan has a counter and a rate of the same name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is a counter and a rate: use different names")]
pub(super) struct TwoKinds(&'static str);

/// Returns the metrics of a scenario besides those of every scenario.
pub(super) fn all(requests: &[Request], has_phases: bool) -> Result<OwnMetrics, TwoKinds> {
    let phases = if has_phases { phases::METRICS } else { &[] };
    let mut all = phases.to_vec();
    for metric in requests.iter().flat_map(|request| request.checks.metrics()) {
        match all.iter().find(|(name, _)| *name == metric.0) {
            Some(known) if *known != metric => return Err(TwoKinds(metric.0)),
            Some(_) => {}
            None => all.push(metric),
        }
    }
    if all.len() == phases.len() {
        return Ok(phases);
    }
    // A plan has a limited number of metrics, which last as long as the process.
    Ok(Box::leak(all.into_boxed_slice()))
}
