//! Figures of a comparison.

use anyhow::{Context, Result};
use lucarne_load::Summary;
use lucarne_testkit::Usage;

/// Figures of one run, or medians of several; `None` if a figure is not available.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    entries_per_second: Option<f64>,
    cpu_per_entry_us: Option<f64>,
    peak_memory_mb: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    written_per_entry: Option<f64>,
    failed_percent: Option<f64>,
}

/// A row of the table: its name with the unit, and its figure.
type Row = (&'static str, fn(&Figures) -> Option<f64>);

const ROWS: [Row; 7] = [
    ("entries/s", |f| f.entries_per_second),
    ("CPU per entry, µs", |f| f.cpu_per_entry_us),
    ("memory at its peak, MB", |f| f.peak_memory_mb),
    ("submission p50, ms", |f| f.p50_ms),
    ("submission p99, ms", |f| f.p99_ms),
    ("written per entry, bytes", |f| f.written_per_entry),
    ("requests failed, %", |f| f.failed_percent),
];

impl Figures {
    /// Computes the figures of a run that added `entries` entries, from the resources that the
    /// log's processes had used before and after the run.
    pub(crate) fn new(
        summary: &Summary,
        entries: u64,
        used: Option<(Usage, Usage)>,
    ) -> Result<Self> {
        let durations = summary.total("http_req_duration");
        let durations = durations.context("the summary has no http_req_duration")?;
        let latency = durations
            .trend()
            .context("http_req_duration is not a trend")?;
        let ms = |p| Some(latency.percentile(p).as_secs_f64() * 1000.0);
        let per_entry = |amount: u64| (entries > 0).then(|| amount as f64 / entries as f64);
        let failed = match summary.total("http_req_failed") {
            Some(lucarne_load::Metric::Rate { good, total }) if total > 0 => {
                Some(100.0 * good as f64 / total as f64)
            }
            _ => None,
        };
        Ok(Figures {
            entries_per_second: Some(entries as f64 / summary.duration),
            cpu_per_entry_us: used.and_then(|(a, b)| per_entry(b.cpu_us - a.cpu_us)),
            peak_memory_mb: used.map(|(_, after)| after.peak_rss as f64 / 1e6),
            p50_ms: ms(50.0),
            p99_ms: ms(99.0),
            written_per_entry: used.and_then(|(a, b)| per_entry(b.written - a.written)),
            failed_percent: failed,
        })
    }

    /// Returns the median of each figure.
    pub(crate) fn median(rounds: &[Figures]) -> Figures {
        let of = |figure: fn(&Figures) -> Option<f64>| {
            let mut values: Vec<f64> = rounds.iter().filter_map(figure).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        Figures {
            entries_per_second: of(|f| f.entries_per_second),
            cpu_per_entry_us: of(|f| f.cpu_per_entry_us),
            peak_memory_mb: of(|f| f.peak_memory_mb),
            p50_ms: of(|f| f.p50_ms),
            p99_ms: of(|f| f.p99_ms),
            written_per_entry: of(|f| f.written_per_entry),
            failed_percent: of(|f| f.failed_percent),
        }
    }
}

/// Prints the figures of both logs in columns, and the first as a multiple of the second.
pub(crate) fn print(names: [&str; 2], figures: [&Figures; 2]) {
    println!("{}", table(names, figures));
}

fn table(names: [&str; 2], figures: [&Figures; 2]) -> String {
    let mut text = format!(
        "{:<26}{:>16}{:>16}{:>10}\n",
        "", names[0], names[1], "ratio"
    );
    for (what, figure) in ROWS {
        let [ours, theirs] = figures.map(figure);
        let ratio = match (ours, theirs) {
            (Some(ours), Some(theirs)) if theirs != 0.0 => format!("{:.2}", ours / theirs),
            _ => "–".to_owned(),
        };
        let [ours, theirs] = [ours, theirs].map(shown);
        text += &format!("{what:<26}{ours:>16}{theirs:>16}{ratio:>10}\n");
    }
    text
}

fn shown(figure: Option<f64>) -> String {
    match figure {
        None => "–".to_owned(),
        Some(value) if value >= 1000.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        let round = |cpu| Figures {
            cpu_per_entry_us: cpu,
            p50_ms: Some(2.0),
            ..Figures::default()
        };
        let ours = Figures::median(&[Some(90.0), Some(70.0), Some(80.0)].map(round));
        let theirs = Figures::median(&[round(Some(320.0)), round(None)]);
        let table = table(["Ours", "Theirs"], [&ours, &theirs]);
        let line = |what| table.lines().find(|line| line.starts_with(what)).unwrap();
        let words = |what| -> Vec<&str> { line(what).split_whitespace().rev().take(3).collect() };
        assert_eq!(words("CPU"), ["0.25", "320.0", "80.0"]);
        assert_eq!(words("memory"), ["–", "–", "–"]);
        assert_eq!(words("submission p50"), ["1.00", "2.0", "2.0"]);
    }
}
