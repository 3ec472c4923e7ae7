//! Thresholds of a plan, in k6's format.

use std::path::Path;

use lucarne_settings::tree::Entry;
use lucarne_settings::{Node, Reader, Report, Section, Value, nearest, values};

use super::PlannedScenario;
use crate::threshold::{Threshold, Thresholds};

/// Metrics of every scenario.
const METRICS: &[&str] = &[
    "body_received",
    "body_sent",
    "checks",
    "data_received",
    "data_sent",
    "dropped_iterations",
    "http_req_connecting",
    "http_req_duration",
    "http_req_failed",
    "http_req_receiving",
    "http_req_resent",
    "http_req_reset",
    "http_req_sending",
    "http_req_tls_handshaking",
    "http_req_waiting",
    "http_reqs",
    "iteration_duration",
    "iteration_start_delay",
    "iterations",
    "iterations_failed",
    "iterations_finished",
    "vus",
];

/// Keys of a threshold's long form.
const LONG: &[&str] = &["threshold", "abortOnFail", "delayAbortEval"];

/// Parses `thresholds:`, a map from metrics to expressions.
pub(super) fn read(
    node: Option<&Node>,
    scenarios: &[PlannedScenario],
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
        look_at(entry, scenarios, report);
        let items = match &entry.value.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(&entry.value),
        };
        let read = |item| threshold(&entry.key, item, report);
        thresholds.extend(items.iter().filter_map(read));
    }
    Thresholds(thresholds)
}

/// Warns about typing errors in a metric, which would have no samples.
fn look_at(entry: &Entry, scenarios: &[PlannedScenario], report: &mut Report) {
    let path = format!("thresholds.{}", entry.key);
    let (metric, tags) = match entry.key.split_once('{') {
        Some((metric, tags)) => (metric.trim(), tags.trim_end_matches('}')),
        None => (entry.key.trim(), ""),
    };
    if !METRICS.contains(&metric)
        && let Some(near) = nearest(metric, METRICS)
    {
        let message = format!("is not a metric of every scenario; did you mean `{near}`?");
        report.warning(Some(entry.line), &path, message);
    }
    let names: Vec<&str> = scenarios.iter().map(|s| s.name.as_str()).collect();
    for tag in tags.split(',') {
        if let Some(("scenario", name)) = tag.split_once(':').map(|(t, v)| (t.trim(), v.trim()))
            && !names.is_empty()
            && !names.contains(&name)
        {
            let message = format!(
                "there is no scenario `{name}`; there are {}",
                names.join(", ")
            );
            report.problem(Some(entry.line), &path, message);
        }
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
