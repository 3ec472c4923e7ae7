//! Thresholds of a plan, in k6's format.

use std::path::Path;

use lucarne_settings::tree::Entry;
use lucarne_settings::{Node, Reader, Report, Section, Value, values};

use super::PlannedScenario;
use crate::threshold::{Threshold, Thresholds};

/// Keys of a threshold's long form.
const LONG: &[&str] = &["threshold", "abortOnFail", "delayAbortEval"];

/// Parses `thresholds:`, a map from metrics to expressions. `scenarios` is `None` if the plan has a
/// scenario with an error, whose metrics are unknown.
pub(super) fn read(
    node: Option<&Node>,
    scenarios: Option<&[PlannedScenario]>,
    report: &mut Report,
) -> Thresholds {
    let Some(node) = node else {
        return Thresholds::default();
    };
    let Value::Map(entries) = &node.value else {
        let message = format!(
            "must be a map from metrics to expressions, but is {}",
            node.value.kind()
        );
        report.problem(Some(node.line), "thresholds", message);
        return Thresholds::default();
    };
    let mut thresholds = Vec::new();
    for entry in entries {
        let items = match &entry.value.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(&entry.value),
        };
        let read = |item| threshold(&entry.key, item, report);
        let parsed: Vec<Threshold> = items.iter().filter_map(read).collect();
        if let Some(scenarios) = scenarios {
            check(entry, &parsed, scenarios, report);
        }
        thresholds.extend(parsed);
    }
    Thresholds(thresholds)
}

/// Refuses thresholds on scenarios and metrics that do not exist, because these thresholds would
/// have no samples.
fn check(
    entry: &Entry,
    thresholds: &[Threshold],
    scenarios: &[PlannedScenario],
    report: &mut Report,
) {
    let path = format!("thresholds.{}", entry.key);
    let own: Vec<_> = scenarios
        .iter()
        .map(|it| (it.name.as_str(), it.metrics))
        .collect();
    if let Some(problem) = thresholds.iter().find_map(|it| it.is_for(&own).err()) {
        report.problem(Some(entry.line), &path, problem.to_string());
    }
}

/// Parses `p(95)<500`, or the map of the long form.
fn threshold(metric: &str, node: &Node, report: &mut Report) -> Option<Threshold> {
    let path = format!("thresholds.{metric}");
    let parse = |text: &str, line, report: &mut Report| {
        let threshold = Threshold::new(metric, text);
        threshold
            .map_err(|error| {
                let message = format!("`{}`: {}", error.threshold, error.problem);
                report.problem(Some(line), &path, message);
            })
            .ok()
    };
    match &node.value {
        Value::Scalar(text) => parse(text, node.line, report),
        Value::Map(_) => {
            let section = Section::open(node, &path, LONG, report)?;
            let mut reader = Reader::new(section, &path, Path::new(""), report);
            let text = reader.text("threshold");
            let text = reader.required("threshold", text, "p(95)<500");
            let abort = reader.parse("abortOnFail", values::boolean);
            let delay = reader.parse("delayAbortEval", values::duration);
            let mut threshold = parse(text?.value, node.line, report)?;
            threshold.abort_on_fail = abort.is_some_and(|abort| abort.value);
            threshold.delay_abort_eval = delay.map(|delay| delay.value).unwrap_or_default();
            Some(threshold)
        }
        other => {
            let message = format!(
                "must be an expression such as p(95)<500, but is {}",
                other.kind()
            );
            report.problem(Some(node.line), path, message);
            None
        }
    }
}
