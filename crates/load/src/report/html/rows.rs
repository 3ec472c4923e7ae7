//! Tables of the page, as text.

use crate::report::format;
use crate::report::matrix::{Cell, Matrix, is_cell};
use crate::report::statistics::{Statistics, count, line, per, share};
use crate::report::tags;
use crate::report::threshold::observed;
use crate::summary::{ScenarioSummary, Series, TagList};
use crate::{Metric, Summary};

/// Limit of rows in the table by tag; the table of all metrics has the rest.
const MOST_TAGGED: usize = 200;

pub(super) struct Figure {
    pub(super) value: String,
    pub(super) label: &'static str,
    pub(super) bad: bool,
}

pub(super) struct ThresholdRow {
    pub(super) metric: String,
    pub(super) expression: String,
    pub(super) observed: String,
    pub(super) samples: u64,
    pub(super) passed: bool,
}

pub(super) struct ScenarioRow {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) asked: String,
    pub(super) started: u64,
    pub(super) dropped: u64,
    pub(super) achieved: String,
    /// Delay by the load generator before iterations began.
    pub(super) start_delay: String,
    /// Whether less load was offered than planned.
    pub(super) short: bool,
    pub(super) requests: u64,
    pub(super) rate: String,
    pub(super) failed: String,
    pub(super) failing: bool,
    pub(super) med: String,
    pub(super) p95: String,
    pub(super) p99: String,
    pub(super) max: String,
}

pub(super) struct TaggedRow {
    pub(super) tags: TagList,
    pub(super) requests: u64,
    pub(super) rate: String,
    pub(super) failed: String,
    pub(super) failing: bool,
    pub(super) connect: String,
    pub(super) tls: String,
    pub(super) waiting: String,
    pub(super) avg: String,
    pub(super) med: String,
    pub(super) p95: String,
    pub(super) p99: String,
    pub(super) max: String,
}

pub(super) struct CheckRow {
    pub(super) name: String,
    pub(super) place: String,
    pub(super) passes: u64,
    pub(super) fails: u64,
    pub(super) failed: bool,
    pub(super) details: Vec<String>,
}

pub(super) struct ErrorRow {
    pub(super) kind: String,
    pub(super) place: String,
    pub(super) count: u64,
    pub(super) detail: String,
}

pub(super) struct NoteRow {
    pub(super) title: String,
    pub(super) text: String,
}

pub(super) struct MetricRow {
    pub(super) name: String,
    pub(super) tags: TagList,
    pub(super) figures: String,
}

pub(super) struct MatrixTable {
    pub(super) title: &'static str,
    pub(super) corner: &'static str,
    pub(super) columns: Vec<String>,
    pub(super) lines: Vec<MatrixLine>,
}

pub(super) struct MatrixLine {
    pub(super) name: String,
    pub(super) cells: Vec<MatrixCell>,
}

#[derive(Default)]
pub(super) struct MatrixCell {
    pub(super) operations: String,
    pub(super) bytes: String,
    pub(super) latency: String,
    pub(super) best: bool,
}

/// Describes the load in one line.
pub(super) fn load(summary: &Summary) -> String {
    let one = |scenario: &ScenarioSummary| format!("{} {}", scenario.name, scenario.executor);
    match summary.scenarios.as_slice() {
        [] => "no scenarios".to_owned(),
        few if few.len() <= 4 => few.iter().map(one).collect::<Vec<_>>().join(" · "),
        many => format!("{} scenarios", many.len()),
    }
}

/// Returns the figures at the top.
pub(super) fn figures(summary: &Summary) -> Vec<Figure> {
    let figure = |value: String, label, bad| Figure { value, label, bad };
    let requests = count(summary.total("http_reqs").as_ref());
    let (failed, total) = share(summary.total("http_req_failed").as_ref());
    let (asked, started, dropped) = summary.scenarios.iter().fold((0, 0, 0), |sums, scenario| {
        (
            sums.0 + scenario.asked,
            sums.1 + scenario.started,
            sums.2 + scenario.dropped,
        )
    });
    let mut figures = vec![
        figure(requests.to_string(), "requests", false),
        figure(
            format::per_second(per(requests, summary.duration)),
            "on average",
            false,
        ),
        figure(format::percent(failed, total), "failed", failed > 0),
    ];
    if let Some(figures_of_all) = Statistics::of_metric(latency(summary, &[]).as_ref()) {
        let ms = format::duration;
        figures.push(figure(ms(figures_of_all.med), "median", false));
        figures.push(figure(ms(figures_of_all.p99), "p(99)", false));
        figures.push(figure(ms(figures_of_all.max), "slowest", false));
    }
    if asked > 0 {
        let share = format::percent(started.min(asked), asked);
        figures.push(figure(
            share,
            "of the requested load offered",
            started < asked,
        ));
        figures.push(figure(dropped.to_string(), "dropped", dropped > 0));
    }
    let counted = summary
        .checks
        .iter()
        .filter(|check| check.excused.is_none());
    let fails: u64 = counted.map(|check| check.fails).sum();
    if !summary.checks.is_empty() {
        figures.push(figure(fails.to_string(), "checks failed", fails > 0));
    }
    figures
}

fn latency(summary: &Summary, tags: &[(&str, &str)]) -> Option<Metric> {
    let requests = summary
        .select("http_req_duration", tags)
        .filter(|metric| metric.samples() > 0);
    requests.or_else(|| summary.select("iteration_duration", tags))
}

pub(super) fn thresholds(summary: &Summary) -> Vec<ThresholdRow> {
    let row = |threshold: &crate::threshold::ThresholdResult| {
        let seen = threshold.observed.map_or_else(
            || "no samples".to_owned(),
            |value| observed(&threshold.metric, &threshold.expression, value),
        );
        let reason = threshold
            .reason
            .as_deref()
            .filter(|_| !threshold.passed && threshold.observed.is_some());
        ThresholdRow {
            metric: threshold.metric.clone(),
            expression: threshold.expression.clone(),
            observed: reason.map_or(seen.clone(), |reason| format!("{seen}: {reason}")),
            samples: threshold.samples,
            passed: threshold.passed,
        }
    };
    summary.thresholds.iter().map(row).collect()
}

pub(super) fn scenarios(summary: &Summary) -> Vec<ScenarioRow> {
    summary
        .scenarios
        .iter()
        .map(|scenario| scenario_row(summary, scenario))
        .collect()
}

fn scenario_row(summary: &Summary, scenario: &ScenarioSummary) -> ScenarioRow {
    let tags = [("scenario", scenario.name.as_str())];
    let requests = count(summary.select("http_reqs", &tags).as_ref());
    let (failed, total) = share(summary.select("http_req_failed", &tags).as_ref());
    let figures = Statistics::of_metric(latency(summary, &tags).as_ref());
    let ms = |pick: fn(&Statistics) -> f64| {
        figures
            .as_ref()
            .map_or("–".into(), |s| format::duration(pick(s)))
    };
    let delay = summary.select("iteration_start_delay", &tags);
    let delay = Statistics::of_metric(delay.as_ref());
    let start_delay = delay.map_or("–".into(), |s| format::duration(s.p99));
    let tags: Vec<_> = scenario
        .tags
        .iter()
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    let about = [
        scenario.kind.clone(),
        scenario.executor.clone(),
        tags.join(" "),
    ];
    ScenarioRow {
        name: scenario.name.clone(),
        about: about
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" · "),
        asked: if scenario.asked > 0 {
            scenario.asked.to_string()
        } else {
            "–".into()
        },
        started: scenario.started,
        dropped: scenario.dropped,
        achieved: match scenario.asked {
            0 => "–".into(),
            asked => format::percent(scenario.started.min(asked), asked),
        },
        start_delay,
        short: scenario.dropped > 0,
        requests,
        rate: format::per_second(per(requests, scenario.duration)),
        failed: format::percent(failed, total),
        failing: failed > 0,
        med: ms(|s| s.med),
        p95: ms(|s| s.p95),
        p99: ms(|s| s.p99),
        max: ms(|s| s.max),
    }
}

pub(super) fn tagged(summary: &Summary) -> Vec<TaggedRow> {
    let common = tags::common(summary);
    let requests = summary
        .series
        .iter()
        .filter(|series| series.metrics.contains_key("http_req_duration"));
    let tagged = requests.filter(|series| series.tags.len() > 1 && !is_cell(series));
    tagged
        .take(MOST_TAGGED)
        .map(|series| tagged_row(summary, series, &common))
        .collect()
}

fn tagged_row(summary: &Summary, series: &Series, common: &TagList) -> TaggedRow {
    let metric = |name: &str| series.metrics.get(name);
    let median = |name: &str| {
        Statistics::of_metric(metric(name)).map_or("–".into(), |s| format::duration(s.med))
    };
    let figures = Statistics::of_metric(metric("http_req_duration")).unwrap_or_default();
    let (failed, total) = share(metric("http_req_failed"));
    let requests = count(metric("http_reqs"));
    let scenario = summary
        .scenarios
        .iter()
        .find(|known| Some(known.name.as_str()) == series.tag("scenario"));
    let seconds = scenario.map_or(summary.duration, |scenario| scenario.duration);
    TaggedRow {
        tags: tags::telling(&series.tags, common),
        requests,
        rate: format::per_second(per(requests, seconds)),
        failed: format::percent(failed, total),
        failing: failed > 0,
        connect: median("http_req_connecting"),
        tls: median("http_req_tls_handshaking"),
        waiting: median("http_req_waiting"),
        avg: format::duration(figures.avg),
        med: format::duration(figures.med),
        p95: format::duration(figures.p95),
        p99: format::duration(figures.p99),
        max: format::duration(figures.max),
    }
}

pub(super) fn checks(summary: &Summary) -> Vec<CheckRow> {
    let row = |check: &crate::summary::Check| CheckRow {
        name: check.name.clone(),
        place: check
            .tags
            .iter()
            .map(|(_, value)| value.as_str())
            .collect::<Vec<_>>()
            .join(" "),
        passes: check.passes,
        fails: check.fails,
        failed: check.fails > 0 && check.excused.is_none(),
        details: check.details.clone(),
    };
    summary.checks.iter().map(row).collect()
}

pub(super) fn errors(summary: &Summary) -> Vec<ErrorRow> {
    let row = |error: &crate::summary::ErrorKind| ErrorRow {
        kind: error.kind.clone(),
        place: error.scenario.clone(),
        count: error.count,
        detail: error.details.first().cloned().unwrap_or_default(),
    };
    summary.errors.iter().map(row).collect()
}

pub(super) fn notes(summary: &Summary) -> Vec<NoteRow> {
    let row = |note: &crate::Note| NoteRow {
        title: note.title.clone(),
        text: note.lines.join("\n"),
    };
    summary.notes.iter().map(row).collect()
}

pub(super) fn metrics(summary: &Summary) -> Vec<MetricRow> {
    let rows = summary.series.iter().flat_map(|series| {
        series.metrics.iter().map(|(name, metric)| MetricRow {
            name: name.clone(),
            tags: series.tags.clone(),
            figures: line(name, metric, summary.duration),
        })
    });
    rows.collect()
}

pub(super) fn environment(summary: &Summary) -> Vec<(&'static str, String)> {
    let known = &summary.environment;
    let threads = match known.threads {
        1 => "1 worker thread".to_owned(),
        threads => format!("{threads} worker threads"),
    };
    let cpu = known.process_cpu.map_or_else(String::new, |seconds| {
        let requests = count(summary.total("http_reqs").as_ref());
        let each = format::duration(seconds * 1e3 / requests.max(1) as f64);
        format!(
            "{} of processor time, {each} a request",
            format::duration(seconds * 1e3)
        )
    });
    let memory = |bytes: u64| match bytes {
        0 => String::new(),
        bytes => format::bytes(bytes as f64),
    };
    let rows = [
        ("Host", known.host.clone()),
        (
            "System",
            format!("{} {}", known.system, known.kernel)
                .trim()
                .to_owned(),
        ),
        ("Processor", known.processor.clone()),
        (
            "Cores",
            if known.cores > 0 {
                known.cores.to_string()
            } else {
                String::new()
            },
        ),
        ("Memory", memory(known.memory)),
        (
            "Load tester",
            format!("lucarne {}, {threads}", known.version),
        ),
        ("Its own cost", cpu),
        ("Its peak memory", memory(known.peak_memory.unwrap_or(0))),
        ("Started", super::instant(summary.started)),
    ];
    rows.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

impl MatrixTable {
    pub(super) fn of(matrix: &Matrix) -> Self {
        let lines = matrix.rows.iter().zip(&matrix.cells).map(|(name, cells)| {
            let rates = cells.iter().flatten().map(|cell| cell.operations);
            let most = rates.fold(0.0, f64::max);
            let text = |cell: &Option<Cell>| {
                cell.as_ref()
                    .map(|cell| matrix_cell(cell, most))
                    .unwrap_or_default()
            };
            MatrixLine {
                name: name.clone(),
                cells: cells.iter().map(text).collect(),
            }
        });
        MatrixTable {
            title: "Cells",
            corner: "operation, size × users at once",
            columns: matrix.columns.clone(),
            lines: lines.collect(),
        }
    }
}

fn matrix_cell(cell: &Cell, most: f64) -> MatrixCell {
    let mut latency = format!(
        "p50 {} · p99 {}",
        format::duration(cell.latency.med),
        format::duration(cell.latency.p99)
    );
    if cell.failed.0 > 0 {
        latency.push_str(&format!(
            " · {} failed",
            format::percent(cell.failed.0, cell.failed.1)
        ));
    }
    MatrixCell {
        operations: format::per_second(cell.operations),
        bytes: format!("{}/s", format::bytes(cell.bytes)),
        latency,
        best: cell.operations >= most && most > 0.0,
    }
}
