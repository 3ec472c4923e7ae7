//! Text summary at the end, in a layout like k6's.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::format::{self, cut, pad, pad_left, printable};
use super::matrix::{self, Matrix};
use super::statistics::{self, Statistics};
use super::tags;
use super::threshold::{left_side, observed};
use crate::summary::{Check, ScenarioSummary, Series, Summary, TagList};
use crate::{Metric, Verdict};

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
            "vus",
            "vus_max",
        ],
    ),
    (
        "NETWORK",
        &["data_received", "data_sent", "body_received", "body_sent"],
    ),
];
/// Metrics with further rows for each scenario and set of tags.
const DETAILED: [&str; 4] = [
    "http_req_duration",
    "http_req_failed",
    "iteration_duration",
    "iteration_start_delay",
];
/// Limit of rows per metric; `summary.json` and `report.html` have all.
const MOST_ROWS: usize = 24;
/// Limit of details per failed check and per kind of error.
const MOST_DETAILS: usize = 3;

/// Formats the summary for a terminal: thresholds, checks, metrics with their scenarios and tags,
/// cells, errors, notes. Removes control characters from external text.
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    headline(&mut out, summary);
    scenarios(&mut out, summary);
    thresholds(&mut out, summary);
    checks(&mut out, summary);
    metrics(&mut out, summary);
    if let Some(matrix) = matrix::matrix(summary) {
        cells(&mut out, &matrix);
    }
    errors(&mut out, summary);
    notes(&mut out, summary);
    out
}

fn title(out: &mut String, text: &str) {
    let _ = write!(out, "\n  █ {text}\n\n");
}

fn headline(out: &mut String, summary: &Summary) {
    let mark = match summary.verdict {
        Verdict::Passed => '✓',
        Verdict::Unjudged => '–',
        _ => '✗',
    };
    let name = if summary.name.is_empty() {
        "run"
    } else {
        &summary.name
    };
    let _ = writeln!(
        out,
        "  {mark} {}: {}, {}",
        printable(name),
        summary.verdict,
        format::duration(summary.duration * 1e3)
    );
}

fn scenarios(out: &mut String, summary: &Summary) {
    if summary.scenarios.is_empty() {
        return;
    }
    title(out, "SCENARIOS");
    let wide = widest(
        summary
            .scenarios
            .iter()
            .map(|scenario| scenario.name.as_str()),
        24,
    );
    for scenario in &summary.scenarios {
        let name = pad(&cut(&printable(&scenario.name), wide), wide);
        let about = if scenario.kind.is_empty() {
            scenario.executor.clone()
        } else {
            format!("{}, {}", scenario.kind, scenario.executor)
        };
        let _ = writeln!(out, "    {name}  {}", printable(&about));
        let offered = offered(summary, scenario);
        let _ = writeln!(out, "    {}  {offered}", " ".repeat(wide));
    }
}

/// Describes the planned load and the actual one.
fn offered(summary: &Summary, scenario: &ScenarioSummary) -> String {
    let ScenarioSummary {
        asked,
        started,
        dropped,
        interrupted,
        ..
    } = *scenario;
    let rate = format::per_second(statistics::per(started, scenario.duration));
    let mut text = match asked {
        0 => format!("{started} started, {rate}"),
        _ => format!(
            "{started} of {asked} started ({}), {rate}",
            format::percent(started.min(asked), asked)
        ),
    };
    if dropped > 0 {
        let _ = write!(text, ", ✗ {dropped} dropped");
    }
    if interrupted > 0 {
        let _ = write!(text, ", {interrupted} cut off");
    }
    let users = match scenario.users_max {
        1 => ", 1 user".to_owned(),
        most => format!(", at most {most} users"),
    };
    text.push_str(&users);
    let tags = [("scenario", scenario.name.as_str())];
    let delay = summary.select("iteration_start_delay", &tags);
    if let Some(delay) = Statistics::of_metric(delay.as_ref()) {
        let _ = write!(text, ", start delay p(99)={}", format::duration(delay.p99));
    }
    text
}

fn thresholds(out: &mut String, summary: &Summary) {
    if summary.thresholds.is_empty() {
        return;
    }
    title(out, "THRESHOLDS");
    let mut last = None;
    for threshold in &summary.thresholds {
        if last != Some(&threshold.metric) {
            let gap = if last.is_some() { "\n" } else { "" };
            let _ = writeln!(out, "{gap}    {}", printable(&threshold.metric));
            last = Some(&threshold.metric);
        }
        let mark = if threshold.passed { '✓' } else { '✗' };
        let expression = printable(&threshold.expression);
        let mut line = format!("    {mark} '{expression}'");
        match threshold.observed {
            Some(value) => {
                let value = observed(&threshold.metric, &threshold.expression, value);
                let _ = write!(line, " {}={value}", left_side(&expression));
            }
            None => line.push_str(" no samples"),
        }
        let told = |_: &&String| !threshold.passed && threshold.observed.is_some();
        if let Some(reason) = threshold.reason.as_ref().filter(told) {
            let _ = write!(line, " ({})", printable(reason));
        }
        if threshold.aborted {
            line.push_str(" — ended the run");
        }
        let _ = writeln!(out, "{line}");
    }
}

fn checks(out: &mut String, summary: &Summary) {
    if summary.checks.is_empty() {
        return;
    }
    title(out, "CHECKS");
    let counted = || {
        summary
            .checks
            .iter()
            .filter(|check| check.excused.is_none())
    };
    let passes: u64 = counted().map(|check| check.passes).sum();
    let fails: u64 = counted().map(|check| check.fails).sum();
    let total = passes + fails;
    let rate = format::per_second(statistics::per(total, summary.duration));
    let of = |part| format!("{} {part} out of {total}", format::percent(part, total));
    let rows = [
        ("checks_total", format!("{total} {rate}")),
        ("checks_succeeded", of(passes)),
        ("checks_failed", of(fails)),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "    {} {value}", dotted(name, 22));
    }
    let common = tags::common(summary);
    let mut last = None;
    for check in &summary.checks {
        let group = tags::braces(&tags::telling(&check.tags, &common));
        if last.as_ref() != Some(&group) {
            let _ = writeln!(out, "\n    {group}");
            last = Some(group);
        }
        one_check(out, check);
    }
}

fn one_check(out: &mut String, check: &Check) {
    let mark = match (check.fails, check.excused) {
        (0, _) => '✓',
        (_, None) => '✗',
        (_, Some(_)) => '!',
    };
    let excuse = check.excused.filter(|_| check.fails > 0);
    let excuse = excuse.map_or(String::new(), |excuse| format!(" ({})", excuse.words()));
    let _ = writeln!(out, "      {mark} {}{excuse}", printable(&check.name));
    if check.fails == 0 {
        return;
    }
    let (passes, fails) = (check.passes, check.fails);
    let share = format::percent(passes, passes + fails);
    let _ = writeln!(out, "        ↳  {share} — ✓ {passes} / ✗ {fails}");
    for detail in check.details.iter().take(MOST_DETAILS) {
        let _ = writeln!(out, "        ↳  {}", cut(&printable(detail), 200));
    }
}

fn metrics(out: &mut String, summary: &Summary) {
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
        Metric::Trend(histogram) => Statistics::of(histogram)
            .columns()
            .iter()
            .map(|(name, ms)| format!("{name}={}", format::duration(*ms)))
            .collect(),
        other => vec![statistics::line(name, other, seconds)],
    };
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

fn cells(out: &mut String, matrix: &Matrix) {
    title(out, "CELLS");
    let name = widest(matrix.rows.iter().map(String::as_str), 20).max(10);
    let heads: Vec<usize> = matrix
        .columns
        .iter()
        .map(|column| format::width(column).max(22))
        .collect();
    let head: String = matrix
        .columns
        .iter()
        .zip(&heads)
        .map(|(text, &wide)| format!("  {}", pad_left(text, wide)))
        .collect();
    let _ = writeln!(out, "    {}{head}", pad("", name));
    for (row, cells) in matrix.rows.iter().zip(&matrix.cells) {
        let figures: String = cells
            .iter()
            .zip(&heads)
            .map(|(cell, &wide)| {
                let text = cell.map_or("–".to_owned(), |cell| {
                    format!(
                        "{}  {}/s",
                        format::per_second(cell.operations),
                        format::bytes(cell.bytes)
                    )
                });
                format!("  {}", pad_left(&text, wide))
            })
            .collect();
        let _ = writeln!(
            out,
            "    {}{figures}",
            pad(&cut(&printable(row), name), name)
        );
    }
}

fn errors(out: &mut String, summary: &Summary) {
    if summary.errors.is_empty() {
        return;
    }
    title(out, "ERRORS");
    let wide = widest(summary.errors.iter().map(|error| error.kind.as_str()), 28);
    for error in &summary.errors {
        let kind = pad(&cut(&printable(&error.kind), wide), wide);
        let _ = writeln!(
            out,
            "    ✗ {kind} {:>8}  {}",
            error.count,
            printable(&error.scenario)
        );
        let mut told = BTreeSet::new();
        let new = error
            .details
            .iter()
            .filter(|detail| told.insert(detail.as_str()));
        for detail in new.take(MOST_DETAILS) {
            let _ = writeln!(out, "      ↳  {}", cut(&printable(detail), 200));
        }
    }
}

fn notes(out: &mut String, summary: &Summary) {
    for note in &summary.notes {
        title(out, &printable(&note.title));
        for line in &note.lines {
            let _ = writeln!(out, "    {}", printable(line));
        }
    }
}

/// Returns the tags of a series without its scenario, which stands above, and without common ones.
fn own_tags(series: &Series, common: &TagList) -> TagList {
    let others = series.tags.iter().filter(|(name, _)| name != "scenario");
    tags::telling(&others.cloned().collect(), common)
}

/// Pads a name with dots to a column, as k6 aligns its figures.
fn dotted(name: &str, columns: usize) -> String {
    let name = cut(name, columns.saturating_sub(1));
    let dots = columns.saturating_sub(format::width(&name));
    format!("{name}{}:", ".".repeat(dots))
}

fn widest<'a>(texts: impl Iterator<Item = &'a str>, most: usize) -> usize {
    texts.map(format::width).max().unwrap_or(0).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_run_in_text() {
        insta::assert_snapshot!("summary", text(&sample::summary()));
    }

    #[test]
    fn cells_in_text() {
        insta::assert_snapshot!("cells", text(&sample::objects()));
    }

    #[test]
    fn a_terminal_is_safe_from_the_target() {
        let text = text(&sample::summary());
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    }

    #[test]
    fn nothing_measured_is_told_without_noise() {
        let text = text(&Summary::default());
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
