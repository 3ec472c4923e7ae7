//! Tables of the page, as text.

use crate::report::format;
use crate::report::matrix::{Cell, Matrix, is_cell};
use crate::report::statistics::{Statistics, count, line, per, share, start_delay};
use crate::report::tags;
use crate::report::threshold::{observed, reason};
use crate::summary::{ScenarioSummary, Series, TagList};
use crate::threshold::ThresholdResult;
use crate::{Metric, Summary};

/// Limit of rows in the table by tag; the table of all metrics has the rest.
const MOST_TAGGED: usize = 200;

pub(super) struct Figure {
    pub(super) value: String,
    pub(super) label: &'static str,
    pub(super) bad: bool,
}

/// Figures of the requests of a row.
pub(super) struct Requests {
    pub(super) count: u64,
    pub(super) rate: String,
    pub(super) failed: String,
    pub(super) failing: bool,
    pub(super) avg: String,
    pub(super) med: String,
    pub(super) p95: String,
    pub(super) p99: String,
    pub(super) max: String,
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
    pub(super) requests: Requests,
}

pub(super) struct TaggedRow {
    pub(super) tags: TagList,
    pub(super) connect: String,
    pub(super) tls: String,
    pub(super) waiting: String,
    pub(super) requests: Requests,
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
    if let Some(figures_of_all) = Statistics::of_metric(summary.latency(&[]).as_ref()) {
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

impl Requests {
    /// Formats the figures of `metric`, which finds a metric by its name, over `seconds`.
    fn of(metric: impl Fn(&str) -> Option<Metric>, times: Option<Metric>, seconds: f64) -> Self {
        let requests = count(metric("http_reqs").as_ref());
        let (failed, total) = share(metric("http_req_failed").as_ref());
        let times = Statistics::of_metric(times.as_ref());
        let time = |pick: fn(&Statistics) -> f64| {
            let time = times.as_ref().map(|times| format::duration(pick(times)));
            time.unwrap_or_else(|| "–".into())
        };
        Requests {
            count: requests,
            rate: format::per_second(per(requests, seconds)),
            failed: format::percent(failed, total),
            failing: failed > 0,
            avg: time(|times| times.avg),
            med: time(|times| times.med),
            p95: time(|times| times.p95),
            p99: time(|times| times.p99),
            max: time(|times| times.max),
        }
    }
}

/// Formats the observed value of a threshold, and the reason of a failure.
pub(super) fn seen(threshold: &ThresholdResult) -> String {
    let seen = observed(threshold).unwrap_or_else(|| "no samples".to_owned());
    match reason(threshold) {
        Some(reason) => format!("{seen}: {reason}"),
        None => seen,
    }
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
    let metric = |name: &str| summary.select(name, &tags);
    let requests = Requests::of(metric, summary.latency(&tags), scenario.duration);
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
        start_delay: start_delay(summary, scenario).unwrap_or_else(|| "–".into()),
        short: scenario.dropped > 0,
        requests,
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
    let metric = |name: &str| series.metrics.get(name).cloned();
    let median = |name: &str| {
        let figures = Statistics::of_metric(series.metrics.get(name));
        figures.map_or("–".into(), |figures| format::duration(figures.med))
    };
    let times = metric("http_req_duration");
    TaggedRow {
        tags: tags::telling(&series.tags, common),
        connect: median("http_req_connecting"),
        tls: median("http_req_tls_handshaking"),
        waiting: median("http_req_waiting"),
        requests: Requests::of(metric, times, summary.seconds(series)),
    }
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
