use crate::load::Outcome;

/// One line of results: the name, the figure and its target.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) figure: String,
    /// Text of the figure's target, if any.
    target: Option<String>,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, figure: impl Into<String>) -> Self {
        Row {
            what: what.into(),
            figure: figure.into(),
            target: None,
        }
    }

    /// Creates a row with a figure that should be at most `target`.
    pub(crate) fn at_most(what: impl Into<String>, value: f64, unit: &str, target: f64) -> Self {
        Row {
            what: what.into(),
            figure: format!("{value:.1} {unit}"),
            target: Some(verdict("most", target, value <= target)),
        }
    }

    /// Creates a row with a figure that should be at least `target`.
    pub(crate) fn at_least(what: impl Into<String>, value: f64, unit: &str, target: f64) -> Self {
        Row {
            what: what.into(),
            figure: format!("{value:.2} {unit}"),
            target: Some(verdict("least", target, value >= target)),
        }
    }

    /// Adds a target that the figure should not exceed.
    pub(crate) fn with_target(self, value: f64, target: f64) -> Self {
        Row {
            target: Some(verdict("most", target, value <= target)),
            ..self
        }
    }
}

fn verdict(bound: &str, target: f64, is_met: bool) -> String {
    let mark = if is_met { "ok" } else { "MISSED" };
    format!("   at {bound} {target}: {mark}")
}

/// Prints rows under a title, columns aligned.
pub(crate) fn print(title: &str, rows: &[Row]) {
    println!("\n{title}");
    let wide = |text: &str| text.chars().count();
    let left = rows.iter().map(|row| wide(&row.what)).max().unwrap_or(0);
    let right = rows.iter().map(|row| wide(&row.figure)).max().unwrap_or(0);
    for row in rows {
        let verdict = row.target.as_deref().unwrap_or_default();
        let pad = " ".repeat(left - wide(&row.what));
        let line = format!("  {}{pad}  {:<right$}{verdict}", row.what, row.figure);
        println!("{}", line.trim_end());
    }
}

/// Returns a latency percentile of an outcome, in milliseconds.
pub(crate) fn millis(outcome: &Outcome, percentile: f64) -> f64 {
    outcome.latency.value_at_quantile(percentile / 100.0) as f64 / 1000.0
}

/// Formats latencies as "p50 1.2 p90 3.4 p99 5.6 p99.9 7.8 max 9.0 ms".
pub(crate) fn latencies(outcome: &Outcome) -> String {
    let points = [50.0, 90.0, 99.0, 99.9];
    let points: String = points
        .iter()
        .map(|p| format!("p{p} {:.1}  ", millis(outcome, *p)))
        .collect();
    format!(
        "{points}max {:.1} ms",
        outcome.latency.max() as f64 / 1000.0
    )
}

/// Formats failures as "none", or as the number of each kind.
pub(crate) fn failures(outcome: &Outcome) -> String {
    if outcome.failures.is_empty() {
        return "none".to_owned();
    }
    let each = outcome.failures.iter().map(|(status, count)| match status {
        0 => format!("{count} connections broken"),
        status => format!("{count} × {status}"),
    });
    each.collect::<Vec<_>>().join(", ")
}
