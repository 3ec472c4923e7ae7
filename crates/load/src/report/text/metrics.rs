//! Metrics of the text summary, in k6's groups.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{dotted, title, widest};
use crate::Metric;
use crate::report::format::{self, pad, printable};
use crate::report::matrix;
use crate::report::statistics::{self, Statistics};
use crate::report::tags;
use crate::summary::{Series, Summary, TagList};

/// Metrics in k6's groups; a scenario's own metrics are in no group and come first.
const GROUPS: [(&str, &[&str]); 3] = [
    (
        "HTTP",
        &[
            "http_req_duration",
            "http_req_connecting",
            "http_req_tls_handshaking",
            "http_req_sending",
            "http_req_waiting",
            "http_req_receiving",
            "http_req_failed",
            "http_req_reset",
            "http_req_resent",
            "http_reqs",
        ],
    ),
    (
        "EXECUTION",
        &[
            "iteration_duration",
            "iteration_start_delay",
            "iterations",
            "dropped_iterations",
            "vu_time_lost",
            "vu_time_throttled",
            "target_silent",
            "vus",
            "vus_max",
        ],
    ),
    (
        "NETWORK",
        &[
            "connections_ipv4",
            "connections_ipv6",
            "data_received",
            "data_sent",
            "body_received",
            "body_sent",
        ],
    ),
];
/// Metrics with further rows for each scenario and set of tags.
const DETAILED: [&str; 4] = [
    "http_req_duration",
    "http_req_failed",
    "iteration_duration",
    "iteration_start_delay",
];
/// Limit of rows per metric; `summary.json` and `report.html` have all rows.
const MOST_ROWS: usize = 24;

/// Writes all metrics by group.
pub(super) fn metrics(out: &mut String, summary: &Summary) {
    let names: BTreeSet<&str> = summary
        .series
        .iter()
        .flat_map(|series| series.metrics.keys())
        .map(String::as_str)
        .collect();
    let grouped = |name: &str| GROUPS.iter().any(|(_, known)| known.contains(&name));
    let own: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| !grouped(name) && *name != "checks")
        .collect();
    title(out, "TOTAL RESULTS");
    let mut first = true;
    for (group, known) in [("CUSTOM", own.as_slice())].into_iter().chain(GROUPS) {
        let rows: Vec<_> = known
            .iter()
            .filter(|name| names.contains(*name))
            .flat_map(|name| metric_rows(summary, name))
            .collect();
        if rows.is_empty() {
            continue;
        }
        let gap = if first { "" } else { "\n" };
        first = false;
        let _ = writeln!(out, "{gap}    {group}");
        rows_of_one_group(out, &rows);
    }
}

/// A label with its figures: columns of a trend, or one text.
struct Row {
    label: String,
    figures: Vec<String>,
}

fn metric_rows(summary: &Summary, name: &str) -> Vec<Row> {
    let Some(total) = summary.total(name) else {
        return Vec::new();
    };
    let mut rows = vec![row(name.to_owned(), name, &total, summary.duration)];
    if !DETAILED.contains(&name) {
        return rows;
    }
    let common = tags::common(summary);
    let having: Vec<&Series> = summary
        .series
        .iter()
        .filter(|series| series.metrics.contains_key(name))
        .collect();
    let scenarios: BTreeSet<&str> = having
        .iter()
        .filter_map(|series| series.tag("scenario"))
        .collect();
    for scenario in &scenarios {
        let of_scenario = [("scenario", *scenario)];
        if scenarios.len() > 1
            && let Some(metric) = summary.select(name, &of_scenario)
        {
            rows.push(row(
                format!("  {{ scenario:{} }}", printable(scenario)),
                name,
                &metric,
                summary.duration,
            ));
        }
        let parts: Vec<_> = having
            .iter()
            .filter(|series| {
                series.tag("scenario") == Some(scenario)
                    && series.tags.len() > 1
                    && !matrix::is_cell(series)
            })
            .collect();
        if parts.len() < 2 {
            continue;
        }
        for series in parts {
            let indent = if scenarios.len() > 1 { "    " } else { "  " };
            let label = format!("{indent}{}", tags::braces(&own_tags(series, &common)));
            rows.push(row(label, name, &series.metrics[name], summary.duration));
        }
    }
    let hidden = rows.len().saturating_sub(MOST_ROWS + 1);
    if hidden > 0 {
        rows.truncate(MOST_ROWS + 1);
        rows.push(Row {
            label: format!("  … {hidden} more in the summary file"),
            figures: vec![],
        });
    }
    rows
}

fn row(label: String, name: &str, metric: &Metric, seconds: f64) -> Row {
    let figures = match metric {
        Metric::Trend(histogram) if histogram.is_empty() => vec!["no samples".to_owned()],
        Metric::Trend(histogram) => Statistics::of(histogram).columns().to_vec(),
        other => vec![statistics::line(name, other, seconds)],
    };
    let label = printable(&label);
    Row { label, figures }
}

fn rows_of_one_group(out: &mut String, rows: &[Row]) {
    let wide = widest(rows.iter().map(|row| row.label.as_str()), 60) + 3;
    let columns: Vec<usize> = (0..7)
        .map(|column| {
            let trends = rows.iter().filter(|row| row.figures.len() > 1);
            trends
                .filter_map(|row| row.figures.get(column))
                .map(|text| format::width(text))
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in rows {
        if row.figures.is_empty() {
            let _ = writeln!(out, "    {}", row.label);
            continue;
        }
        let figures: Vec<_> = row
            .figures
            .iter()
            .zip(&columns)
            .map(|(text, &columns)| pad(text, columns))
            .collect();
        let line = format!("    {} {}", dotted(&row.label, wide), figures.join(" "));
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// Returns the tags of a series, without common tags and without the scenario, which the heading
/// names.
fn own_tags(series: &Series, common: &TagList) -> TagList {
    let others = series.tags.iter().filter(|(name, _)| name != "scenario");
    tags::telling(&others.cloned().collect(), common)
}
