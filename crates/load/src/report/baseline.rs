//! Comparison with an earlier run: ratios and regressions.

use std::collections::BTreeSet;
use std::fmt;

use super::format::{self, pad, pad_left, printable};
use super::statistics::{Statistics, per, share};
use crate::metric::milliseconds;
use crate::summary::LastingFailure;
use crate::{Histogram, Metric, Note, Summary};

/// Minimum number of samples for a reliable percentile. With fewer samples, a difference must
/// exceed the confidence intervals.
const ENOUGH: u64 = 100;
/// Number of samples below which any difference may be chance.
const FEWEST: u64 = 5;
/// Number of iterations below which their rate, and that of requests, may be chance.
const FEWEST_ITERATIONS: u64 = 30;
/// Standard deviations of the 99 % confidence interval.
const CHANCE: f64 = 2.576;
/// Difference in milliseconds that is noise, with any ratio.
const NOISE_MS: f64 = 0.2;
/// Difference in the share of failures that is noise, with any ratio.
const NOISE_SHARE: f64 = 0.0005;

/// Comparison of two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Allowed factor of a regression.
    pub max_regression: f64,
    /// All figures of both runs, and the figures that only the earlier run has.
    pub rows: Vec<Row>,
}

/// A figure in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the scenario; empty for the whole run.
    pub scenario: String,
    /// Name of the figure, for example `http_req_duration p(95)`.
    pub figure: String,
    /// Value of the earlier run; `None` without samples.
    pub old: Option<f64>,
    /// Value of this run; `None` without samples.
    pub new: Option<f64>,
    /// Unit of the values.
    pub unit: Unit,
    /// Ratio `new / old`, if both values exist.
    pub ratio: Option<f64>,
    /// Outcome of the comparison.
    pub outcome: Outcome,
}

/// Unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds; less is better.
    Milliseconds,
    /// Events per second; more is better.
    PerSecond,
    /// A share of failures, 0 to 1; less is better.
    Share,
}

/// Outcomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Difference within the factor.
    Same,
    /// Better by more than the factor.
    Better,
    /// Worse by more than the factor: the comparison fails.
    Worse,
    /// Worse by more than the factor, but too few samples to exclude chance.
    Unsure,
    /// Missing in this run: the comparison fails.
    Missing,
}

impl Comparison {
    /// Returns whether the baseline has figures, and none is worse by more than the factor.
    pub fn passed(&self) -> bool {
        !self.rows.is_empty() && self.regressions().next().is_none()
    }

    /// Returns the rows that fail the comparison.
    pub fn regressions(&self) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(|row| matches!(row.outcome, Outcome::Worse | Outcome::Missing))
    }

    /// Adds a failed comparison to the summary of the run, which then stays failed after a merge.
    pub fn record(&self, summary: &mut Summary) {
        if let Some(note) = self.note() {
            summary.notes.push(note);
            summary.add_lasting_failure(LastingFailure::WorseThanBaseline);
        }
    }

    /// Returns the note for the summary of a run that fails the comparison.
    pub fn note(&self) -> Option<Note> {
        if self.passed() {
            return None;
        }
        let line = |row: &Row| format!("{}: {}", row.scenario, row.figure);
        let mut lines: Vec<String> = self.regressions().map(line).collect();
        if lines.is_empty() {
            lines.push("the baseline has no figures to compare with".into());
        }
        Some(Note {
            title: Note::WORSE.into(),
            lines,
        })
    }
}

/// Compares each scenario of `old` with the same scenario of `new`: latency (avg, med, p95, p99),
/// requests or iterations per second, and failures. A figure that is worse by more than the factor
/// `max_regression` fails, and so does a missing scenario. Differences below 0.2 ms, or 0.05 % of
/// failures, never fail. Requests and iterations per second of fewer than 30 iterations never fail.
/// Percentiles of fewer than 100 samples fail if their confidence intervals
/// (99 %) are apart by more than the factor.
pub fn compare(old: &Summary, new: &Summary, max_regression: f64) -> Comparison {
    let factor = max_regression.max(1.0);
    let mut rows = Vec::new();
    for scenario in &old.scenarios {
        rows.extend(compare_scenario(old, new, &scenario.name, factor));
    }
    Comparison {
        max_regression: factor,
        rows,
    }
}

fn compare_scenario(old: &Summary, new: &Summary, scenario: &str, factor: f64) -> Vec<Row> {
    let judge = |figure: &str, unit, old: Option<f64>, new: Option<f64>, certain| {
        let (ratio, outcome) = judge(unit, old, new, certain, factor)?;
        let (scenario, figure) = (scenario.to_owned(), figure.to_owned());
        Some(Row {
            scenario,
            figure,
            old,
            new,
            unit,
            ratio,
            outcome,
        })
    };
    let tags = [("scenario", scenario)];
    let mut rows = Vec::new();
    for metric in trends(old, scenario) {
        let (old, new) = (old.select(&metric, &tags), new.select(&metric, &tags));
        let trends = [&old, &new].map(|metric| metric.as_ref().and_then(Metric::trend));
        let before = Statistics::of_metric(old.as_ref());
        let after = Statistics::of_metric(new.as_ref());
        type Pick = fn(&Statistics) -> f64;
        // The average of few samples is not meaningful: the percentiles decide.
        let picks: [(&str, Option<f64>, Pick); 4] = [
            ("avg", None, |s| s.avg),
            ("med", Some(0.5), |s| s.med),
            ("p(95)", Some(0.95), |s| s.p95),
            ("p(99)", Some(0.99), |s| s.p99),
        ];
        for (name, quantile, pick) in picks {
            let (before, after) = (before.as_ref().map(pick), after.as_ref().map(pick));
            let figure = format!("{metric} {name}");
            let certain = is_certain(trends, quantile, factor);
            rows.extend(judge(&figure, Unit::Milliseconds, before, after, certain));
        }
    }
    let iterations = [old, new].map(|summary| completed(summary, scenario));
    let certain = iterations.iter().all(|count| *count >= FEWEST_ITERATIONS);
    for counter in ["http_reqs", "iterations"] {
        let [before, after] = [old, new].map(|summary| rate(summary, counter, scenario));
        rows.extend(judge(counter, Unit::PerSecond, before, after, certain));
    }
    let [before, after] = [old, new].map(|summary| failures(summary, scenario));
    rows.extend(judge("http_req_failed", Unit::Share, before, after, true));
    rows
}

/// Returns whether a difference between two trends exceeds chance.
fn is_certain(trends: [Option<&Histogram>; 2], quantile: Option<f64>, factor: f64) -> bool {
    let [Some(old), Some(new)] = trends else {
        return true;
    };
    let fewest = old.count().min(new.count());
    match quantile {
        _ if fewest >= ENOUGH => true,
        Some(quantile) if fewest >= FEWEST => {
            interval(new, quantile).0 > interval(old, quantile).1 * factor
        }
        _ => false,
    }
}

/// Returns the confidence interval of a quantile in milliseconds: the samples at the ranks of its
/// bounds.
fn interval(trend: &Histogram, quantile: f64) -> (f64, f64) {
    let margin = CHANCE * (quantile * (1.0 - quantile) / trend.count() as f64).sqrt();
    let at = |quantile: f64| milliseconds(trend.percentile(100.0 * quantile.clamp(0.0, 1.0)));
    (at(quantile - margin), at(quantile + margin))
}

/// Returns the trends to compare: totals instead of phases, and the scenario's own trends.
fn trends(summary: &Summary, scenario: &str) -> BTreeSet<String> {
    let of_scenario = summary
        .series
        .iter()
        .filter(|series| series.tag("scenario") == Some(scenario));
    let names = of_scenario.flat_map(|series| &series.metrics);
    names
        .filter(|(_, metric)| metric.trend().is_some_and(|trend| !trend.is_empty()))
        .map(|(name, _)| name.clone())
        .filter(|name| !name.starts_with("http_req_") || name == "http_req_duration")
        // The load generator causes the start delay, not the target.
        .filter(|name| name != "iteration_start_delay")
        .collect()
}

fn completed(summary: &Summary, scenario: &str) -> u64 {
    let about = summary.scenario(scenario);
    about.map_or(0, |about| about.completed)
}

fn rate(summary: &Summary, counter: &str, scenario: &str) -> Option<f64> {
    let about = summary.scenario(scenario)?;
    match summary.select(counter, &[("scenario", scenario)])? {
        Metric::Counter { count } => Some(per(count, about.duration)),
        _ => None,
    }
}

fn failures(summary: &Summary, scenario: &str) -> Option<f64> {
    let metric = summary.select("http_req_failed", &[("scenario", scenario)]);
    let (failed, total) = share(metric.as_ref());
    (total > 0).then(|| failed as f64 / total as f64)
}

/// Returns ratio and outcome, or `None` if the earlier run has no figure.
fn judge(
    unit: Unit,
    old: Option<f64>,
    new: Option<f64>,
    certain: bool,
    factor: f64,
) -> Option<(Option<f64>, Outcome)> {
    let old = old?;
    let Some(new) = new else {
        return Some((None, Outcome::Missing));
    };
    let noise = match unit {
        Unit::Milliseconds => NOISE_MS,
        Unit::Share => NOISE_SHARE,
        Unit::PerSecond => 0.0,
    };
    let ratio = (old > 0.0).then(|| new / old);
    let (bad, good) = match unit {
        Unit::PerSecond => (old, new),
        Unit::Milliseconds | Unit::Share => (new, old),
    };
    let outcome = match () {
        () if (new - old).abs() <= noise => Outcome::Same,
        () if bad > good * factor && !certain => Outcome::Unsure,
        () if bad > good * factor => Outcome::Worse,
        () if good > bad * factor => Outcome::Better,
        () => Outcome::Same,
    };
    Some((ratio, outcome))
}

impl fmt::Display for Comparison {
    /// Formats the rows as a table, and the result as a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  █ AGAINST THE BASELINE\n\n")?;
        let wide = self
            .rows
            .iter()
            .map(|row| format::width(&row.figure))
            .max()
            .unwrap_or(0);
        let mut last = None;
        for row in &self.rows {
            if last != Some(&row.scenario) {
                writeln!(f, "    {}", printable(&row.scenario))?;
                last = Some(&row.scenario);
            }
            writeln!(f, "{}", line(row, wide).trim_end())?;
        }
        let unsure = self
            .rows
            .iter()
            .filter(|row| row.outcome == Outcome::Unsure);
        match unsure.count() {
            0 => {}
            count => writeln!(
                f,
                "\n    ? {count} figures look worse, but this may be chance, because samples are few: run longer"
            )?,
        }
        let worse = self.regressions().count();
        let allowed = format::significant(self.max_regression);
        match (self.rows.is_empty(), worse) {
            (true, _) => writeln!(
                f,
                "    ✗ the baseline has no figures to compare with: name the summary of a run with responses"
            ),
            (_, 0) => writeln!(f, "\n    ✓ nothing is worse by more than ×{allowed}"),
            (_, 1) => writeln!(
                f,
                "\n    ✗ one figure is worse by more than ×{allowed}, or missing"
            ),
            _ => writeln!(
                f,
                "\n    ✗ {worse} figures are worse by more than ×{allowed}, or missing"
            ),
        }
    }
}

fn line(row: &Row, wide: usize) -> String {
    let value = |value: Option<f64>| {
        value.map_or("–".to_owned(), |value| match row.unit {
            Unit::Milliseconds => format::duration(value),
            Unit::PerSecond => format::per_second(value),
            Unit::Share => format!("{:.2}%", value * 100.0),
        })
    };
    let (mark, word) = match row.outcome {
        Outcome::Same => (' ', ""),
        Outcome::Better => ('✓', "better"),
        Outcome::Worse => ('✗', "worse"),
        Outcome::Unsure => ('?', "worse, or chance: few samples"),
        Outcome::Missing => ('✗', "missing"),
    };
    format!(
        "    {mark} {} {} → {} {}  {word}",
        pad(&printable(&row.figure), wide),
        pad_left(&value(row.old), 9),
        pad_left(&value(row.new), 9),
        pad_left(
            &row.ratio
                .map_or(String::new(), |ratio| format!("×{ratio:.2}")),
            8
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn slower(times: f64) -> Summary {
        let mut summary = sample::summary();
        for series in &mut summary.series {
            if series.tag("scenario") == Some("write") && series.tag("op").is_some() {
                let durations = sample::durations(10_000, 10.0 * times);
                series
                    .metrics
                    .insert("http_req_duration".into(), sample::trend(&durations));
            }
        }
        summary
    }

    fn outcomes(comparison: &Comparison) -> Vec<(&str, &str)> {
        comparison
            .regressions()
            .map(|row| (row.scenario.as_str(), row.figure.as_str()))
            .collect()
    }

    #[test]
    fn a_run_is_as_good_as_itself() {
        let comparison = compare(&sample::summary(), &sample::summary(), 1.0);
        assert!(comparison.passed(), "{comparison}");
        assert!(
            comparison
                .rows
                .iter()
                .all(|row| row.outcome == Outcome::Same)
        );
        assert!(comparison.to_string().contains("✓ nothing is worse"));
    }

    #[test]
    fn a_baseline_without_figures_fails() {
        let mut old = sample::summary();
        old.series.clear();
        let comparison = compare(&old, &sample::summary(), 1.0);
        assert!(!comparison.passed(), "{comparison}");
        assert!(comparison.note().is_some());
        assert!(
            comparison
                .to_string()
                .contains("✗ the baseline has no figures")
        );
    }

    #[test]
    fn slower_beyond_the_factor_fails_and_within_it_passes() {
        let (old, new) = (slower(1.0), slower(1.3));
        assert!(compare(&old, &new, 1.4).passed());
        let failed = compare(&old, &new, 1.2);
        let figures =
            ["avg", "med", "p(95)", "p(99)"].map(|name| format!("http_req_duration {name}"));
        let expected: Vec<_> = figures
            .iter()
            .map(|figure| ("write", figure.as_str()))
            .collect();
        assert_eq!(outcomes(&failed), expected);
        assert!(compare(&new, &old, 1.2).passed(), "faster is not worse");
        insta::assert_snapshot!("baseline", failed.to_string());
    }

    #[test]
    fn fewer_requests_a_second_fail() {
        let (old, mut new) = (sample::summary(), sample::summary());
        new.scenarios[1].duration *= 1.5;
        let failed = compare(&old, &new, 1.1);
        assert_eq!(
            outcomes(&failed),
            [("read", "http_reqs"), ("read", "iterations")]
        );
    }

    #[test]
    fn rates_of_few_iterations_do_not_fail() {
        let (mut old, mut new) = (sample::summary(), sample::summary());
        old.scenarios[1].completed = FEWEST_ITERATIONS - 1;
        new.scenarios[1].duration *= 1.5;
        let compared = compare(&old, &new, 1.1);
        assert!(compared.passed(), "{compared}");
        old.scenarios[1].completed = FEWEST_ITERATIONS;
        assert!(!compare(&old, &new, 1.1).passed());
    }

    #[test]
    fn a_scenario_that_is_gone_fails() {
        let (old, mut new) = (sample::summary(), sample::summary());
        new.series
            .retain(|series| series.tag("scenario") != Some("read"));
        new.scenarios.truncate(1);
        let failed = compare(&old, &new, 2.0);
        assert!(
            failed
                .regressions()
                .all(|row| row.outcome == Outcome::Missing)
        );
        assert!(!failed.passed());
    }

    #[test]
    fn failures_that_were_none_before_fail() {
        let (mut old, new) = (sample::summary(), sample::summary());
        for series in &mut old.series {
            if let Some(Metric::Rate { good, .. }) = series.metrics.get_mut("http_req_failed") {
                *good = 0;
            }
        }
        let failed = compare(&old, &new, 1.5);
        assert_eq!(outcomes(&failed), [("write", "http_req_failed")]);
    }

    #[test]
    fn noise_and_few_samples_do_not_fail() {
        assert_eq!(
            judge(Unit::Milliseconds, Some(0.1), Some(0.25), true, 1.1),
            Some((Some(2.5), Outcome::Same))
        );
        assert_eq!(
            judge(Unit::Milliseconds, Some(1.0), Some(3.0), false, 1.1),
            Some((Some(3.0), Outcome::Unsure))
        );
        assert_eq!(judge(Unit::PerSecond, None, Some(3.0), true, 1.1), None);
    }

    /// Returns `count` samples around `ms` milliseconds, in a separate scenario.
    fn few(count: u64, ms: f64) -> Summary {
        let mut summary = sample::summary();
        for series in &mut summary.series {
            if series.tag("scenario") == Some("write") && series.tag("op").is_some() {
                let durations = sample::durations(count, ms);
                let trend = sample::trend(&durations);
                series.metrics.insert("http_req_duration".into(), trend);
            }
        }
        summary
    }

    #[test]
    fn few_samples_are_judged_by_what_chance_explains() {
        // Two series of 20 samples each.
        let much = compare(&few(20, 10.0), &few(20, 1650.0), 1.1);
        let failed = outcomes(&much);
        for figure in ["med", "p(95)", "p(99)"] {
            let figure = format!("http_req_duration {figure}");
            assert!(failed.contains(&("write", figure.as_str())), "{much}");
        }
        assert!(compare(&few(20, 1650.0), &few(20, 10.0), 1.1).passed());
        // Slightly worse on few samples: a pass with a warning.
        let little = compare(&few(20, 10.0), &few(20, 11.5), 1.1);
        assert!(little.passed(), "{little}");
        assert!(little.to_string().contains("may be chance"), "{little}");
        // Four samples allow no statement.
        assert!(compare(&few(2, 10.0), &few(2, 1650.0), 1.1).passed());
    }
}
