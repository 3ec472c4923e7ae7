//! Text summary at the end, in a layout like k6's.

mod metrics;

use std::collections::BTreeSet;
use std::fmt::Write;

use lucarne_net::printable_lines;

use super::format::{self, cut, pad, pad_left, printable};
use super::matrix::{self, Matrix};
use super::statistics;
use super::tags;
use super::threshold::{left_side, observed, reason};
use crate::Verdict;
use crate::summary::{Check, ScenarioSummary, Summary};
use metrics::metrics;

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
    printable_lines(&out)
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
        summary.result(),
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

/// Describes the planned load and the actual load.
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
    if let Some(delay) = statistics::start_delay(summary, scenario) {
        let _ = write!(text, ", start delay p(99)={delay}");
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
        let _ = match observed(threshold) {
            Some(value) => write!(line, " {}={value}", left_side(&expression)),
            None => write!(line, " no samples"),
        };
        if let Some(reason) = reason(threshold) {
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
        .map(|(text, &wide)| format!("  {}", pad_left(&printable(text), wide)))
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
    use lucarne_x509::text::is_control;

    use super::*;
    use crate::report::sample;

    #[test]
    fn a_run_in_text() {
        insta::assert_snapshot!("summary", text(&sample::summary()));
    }

    #[test]
    fn the_headline_states_whether_a_threshold_was_crossed() {
        let crossed = text(&sample::summary());
        assert!(crossed.contains(": thresholds crossed, "), "{crossed}");
        let failed = text(&Summary {
            verdict: Verdict::Crossed,
            ..Summary::default()
        });
        let expected = "run: failed, although no threshold was crossed: see below, ";
        assert!(failed.contains(expected), "{failed}");
    }

    #[test]
    fn cells_in_text() {
        insta::assert_snapshot!("cells", text(&sample::objects()));
    }

    #[test]
    fn a_terminal_is_safe_from_the_target() {
        let mut summary = sample::summary();
        let evil = |text: &mut String| text.push_str("\u{1b}[2J\u{9b}2J\r\u{2028}\u{202e}");
        evil(&mut summary.name);
        for series in &mut summary.series {
            series.tags.iter_mut().for_each(|(name, value)| {
                evil(name);
                evil(value);
            });
            let metrics = std::mem::take(&mut series.metrics).into_iter();
            let renamed = metrics.map(|(mut name, metric)| {
                evil(&mut name);
                (name, metric)
            });
            series.metrics = renamed.collect();
        }
        for threshold in &mut summary.thresholds {
            evil(&mut threshold.expression);
        }
        for scenario in &mut summary.scenarios {
            evil(&mut scenario.executor);
        }
        let vegeta = crate::report::vegeta(&summary);
        for text in [text(&summary), vegeta] {
            assert!(!text.chars().any(|c| is_control(c) && c != '\n'), "{text}");
        }
    }

    #[test]
    fn nothing_measured_is_told_without_noise() {
        let text = text(&Summary::default());
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
