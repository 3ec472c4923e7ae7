//! Data of the plots.

use serde::Serialize;

use crate::heat::{HEAT, heat_bounds};
use crate::report::format::printable;
use crate::report::matrix::{Matrix, is_cell};
use crate::report::tags;
use crate::timeline::{PointRow, Timeline};
use crate::{Histogram, Summary};

/// Limit of curves, because further curves would not have distinct colours.
const MOST_CURVES: usize = 8;
/// Points of a curve between one nine and the next.
const POINTS_PER_NINE: u32 = 16;

/// Data in the format that `assets/report.js` reads: durations in milliseconds, rates per second.
#[derive(Serialize)]
pub(super) struct Data {
    timeline: Columns,
    curves: Vec<Curve>,
    matrices: Vec<Bars>,
}

#[derive(Serialize)]
struct Columns {
    /// Seconds of one column.
    interval: f64,
    /// Begin of each column, in seconds after the first arrival.
    at: Vec<f64>,
    /// Bounds of the heat map's buckets, one more than buckets.
    bounds: Vec<f64>,
    scenarios: Vec<Lines>,
}

#[derive(Serialize)]
struct Lines {
    name: String,
    asked: Vec<f64>,
    iterations: Vec<f64>,
    requests: Vec<f64>,
    failures: Vec<f64>,
    dropped: Vec<f64>,
    users: Vec<u32>,
    busy: Vec<u32>,
    p50: Vec<Option<f64>>,
    p90: Vec<Option<f64>>,
    p99: Vec<Option<f64>>,
    max: Vec<Option<f64>>,
    heat: Vec<[u32; HEAT]>,
}

#[derive(Serialize)]
struct Curve {
    name: String,
    /// Percentile and milliseconds.
    points: Vec<(f64, f64)>,
}

#[derive(Serialize)]
struct Bars {
    rows: Vec<String>,
    columns: Vec<String>,
    operations: Vec<Vec<Option<f64>>>,
    bytes: Vec<Vec<Option<f64>>>,
}

impl Data {
    pub(super) fn of(summary: &Summary, matrix: Option<&Matrix>) -> Self {
        Data {
            timeline: columns(summary),
            curves: curves(summary),
            matrices: matrix.map(bars).into_iter().collect(),
        }
    }

    pub(super) fn has_curves(&self) -> bool {
        self.curves.iter().any(|curve| !curve.points.is_empty())
    }
}

fn columns(summary: &Summary) -> Columns {
    let Timeline { interval, points } = &summary.timeline;
    let uppers = heat_bounds().map(|bound| bound.as_secs_f64() * 1e3);
    let ratio = uppers[1] / uppers[0];
    let lines = |(index, name): (usize, &str)| {
        let row = |point: &crate::timeline::Point| {
            point.scenarios.get(index).copied().unwrap_or_default()
        };
        let rows: Vec<PointRow> = points.iter().map(row).collect();
        lines(name, &rows, interval.max(1e-3))
    };
    Columns {
        interval: *interval,
        at: points.iter().map(|point| round(point.at)).collect(),
        bounds: std::iter::once(uppers[0] / ratio)
            .chain(uppers)
            .map(round)
            .collect(),
        scenarios: summary
            .scenarios
            .iter()
            .map(|scenario| scenario.name.as_str())
            .enumerate()
            .map(lines)
            .collect(),
    }
}

fn lines(name: &str, rows: &[PointRow], interval: f64) -> Lines {
    let rate = |pick: fn(&PointRow) -> u64| -> Vec<f64> {
        rows.iter()
            .map(|row| round(pick(row) as f64 / interval))
            .collect()
    };
    let latency = |pick: fn(&PointRow) -> u64| -> Vec<Option<f64>> {
        rows.iter()
            .map(|row| (row.max > 0).then(|| round(pick(row) as f64 / 1e3)))
            .collect()
    };
    Lines {
        name: printable(name),
        asked: rows.iter().map(|row| round(row.asked)).collect(),
        iterations: rate(|row| row.started),
        requests: rate(|row| row.requests),
        failures: rate(|row| row.failures),
        dropped: rate(|row| row.dropped),
        users: rows.iter().map(|row| row.users).collect(),
        busy: rows.iter().map(|row| row.busy).collect(),
        p50: latency(|row| row.p50),
        p90: latency(|row| row.p90),
        p99: latency(|row| row.p99),
        max: latency(|row| row.max),
        heat: rows.iter().map(|row| row.heat).collect(),
    }
}

/// Returns a curve per scenario, or for a single scenario one per set of tags.
fn curves(summary: &Summary) -> Vec<Curve> {
    let by_scenario = |scenario: &crate::summary::ScenarioSummary| {
        let metric = summary.latency(&[("scenario", &scenario.name)])?;
        Some(curve(&scenario.name, metric.trend()?))
    };
    let mut curves: Vec<Curve> = summary.scenarios.iter().filter_map(by_scenario).collect();
    if curves.len() == 1 {
        let common = tags::common(summary);
        let tagged = summary
            .series
            .iter()
            .filter(|series| series.tags.len() > 1 && !is_cell(series));
        let of = tagged.filter_map(|series| {
            let tags = tags::telling(&series.tags, &common);
            let others = tags.iter().filter(|(name, _)| name != "scenario");
            let name = others
                .map(|(_, value)| value.as_str())
                .collect::<Vec<_>>()
                .join(" ");
            Some(curve(
                &name,
                series.metrics.get("http_req_duration")?.trend()?,
            ))
        });
        let parts: Vec<Curve> = of.collect();
        if parts.len() > 1 {
            curves.extend(parts);
        }
    }
    curves.truncate(MOST_CURVES);
    curves
}

fn curve(name: &str, histogram: &Histogram) -> Curve {
    let name = printable(name);
    let count = histogram.count();
    if count == 0 {
        return Curve {
            name,
            points: Vec::new(),
        };
    }
    let last = ((count as f64).log10() * f64::from(POINTS_PER_NINE)).floor() as u32;
    let percentile =
        |step: u32| 100.0 * (1.0 - 10f64.powf(-f64::from(step) / f64::from(POINTS_PER_NINE)));
    let ps: Vec<f64> = (0..=last).map(percentile).collect();
    let values = histogram.percentiles(&ps);
    let points = ps
        .iter()
        .zip(values)
        .map(|(&p, value)| (p, round(value.as_secs_f64() * 1e3)));
    Curve {
        name,
        points: points.collect(),
    }
}

fn bars(matrix: &Matrix) -> Bars {
    type Pick = fn(&crate::report::matrix::Cell) -> f64;
    let values = |pick: Pick| {
        let row = |cells: &Vec<Option<_>>| {
            cells
                .iter()
                .map(|cell| cell.as_ref().map(pick).map(round))
                .collect()
        };
        matrix.cells.iter().map(row).collect()
    };
    Bars {
        rows: matrix.rows.iter().map(|row| printable(row)).collect(),
        columns: matrix
            .columns
            .iter()
            .map(|column| printable(column))
            .collect(),
        operations: values(|cell| cell.operations),
        bytes: values(|cell| cell.bytes),
    }
}

/// Rounds to the digits that a plot can show, to save bytes.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
