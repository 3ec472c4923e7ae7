//! Matrix of cells: operation × size × concurrency, with endpoints next to each other.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::statistics::{Statistics, count, per, share};
use crate::summary::{Series, Summary};
use crate::{Histogram, Metric};

/// Tags of a cell: a series with all three tags is a cell.
const AXES: [&str; 3] = ["op", "size", "concurrency"];
/// Metric with the seconds of a cell; without it, the scenario's duration counts.
const CELL_SECONDS: &str = "cell_seconds";
/// Metric with the payload of a cell; without it, the bytes on the network count.
const PAYLOAD: &str = "object_bytes";

/// A table of cells.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) rows: Vec<String>,
    pub(crate) columns: Vec<String>,
    /// Cells by row, then by column.
    pub(crate) cells: Vec<Vec<Option<Cell>>>,
}

/// Figures of one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Operations per second.
    pub(crate) operations: f64,
    /// Bytes per second.
    pub(crate) bytes: f64,
    pub(crate) latency: Statistics,
    /// Number of failed requests, and of all requests.
    pub(crate) failed: (u64, u64),
}

type Row = (String, Size);
type Column = (u64, String);

/// A size that is ordered by bytes and formatted as written.
#[derive(Clone, Debug, PartialEq)]
struct Size(f64, String);

#[derive(Default)]
struct Sums {
    requests: u64,
    bytes: u64,
    wire: u64,
    seconds: f64,
    failed: (u64, u64),
    latency: Histogram,
}

/// Returns the matrix of a run; `None` if the run has fewer than two cells.
pub(crate) fn matrix(summary: &Summary) -> Option<Matrix> {
    let mut sums = BTreeMap::<(Row, Column), Sums>::new();
    for series in &summary.series {
        let Some(place) = place(series) else { continue };
        sums.entry(place)
            .or_default()
            .add(series, summary.seconds(series));
    }
    if sums.len() < 2 {
        return None;
    }
    let mut rows: Vec<Row> = sums.keys().map(|(row, _)| row.clone()).collect();
    let mut columns: Vec<Column> = sums.keys().map(|(_, column)| column.clone()).collect();
    rows.sort();
    rows.dedup();
    columns.sort();
    columns.dedup();
    let cell =
        |row: &Row, column: &Column| sums.get(&(row.clone(), column.clone())).map(Sums::cell);
    Some(Matrix {
        cells: rows
            .iter()
            .map(|row| columns.iter().map(|column| cell(row, column)).collect())
            .collect(),
        rows: rows
            .iter()
            .map(|(op, size)| format!("{op} {}", size.1))
            .collect(),
        columns: columns.iter().map(column_name).collect(),
    })
}

/// Returns whether a series is a cell, which the matrix shows.
pub(crate) fn is_cell(series: &Series) -> bool {
    place(series).is_some()
}

fn column_name((concurrency, endpoint): &Column) -> String {
    if endpoint.is_empty() {
        format!("×{concurrency}")
    } else {
        format!("×{concurrency} {endpoint}")
    }
}

fn place(series: &Series) -> Option<(Row, Column)> {
    let [op, size, concurrency] = AXES.map(|axis| series.tag(axis));
    let endpoint = series.tag("endpoint").unwrap_or_default().to_owned();
    let size = Size(in_bytes(size?), size?.to_owned());
    Some((
        (op?.to_owned(), size),
        (concurrency?.parse().ok()?, endpoint),
    ))
}

/// Parses `4KiB`, `4 kB`, `1M` into bytes, only for the order of sizes.
fn in_bytes(text: &str) -> f64 {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let base: f64 = if unit.contains('i') { 1024.0 } else { 1000.0 };
    let power = match unit.chars().next() {
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        _ => 0,
    };
    number.parse::<f64>().unwrap_or(f64::MAX) * base.powi(power)
}

impl Sums {
    fn add(&mut self, series: &Series, scenario_seconds: f64) {
        let metric = |name: &str| series.metrics.get(name);
        self.requests += count(metric("http_reqs"));
        self.bytes += count(metric(PAYLOAD));
        self.wire += count(metric("data_sent")) + count(metric("data_received"));
        let (failed, total) = share(metric("http_req_failed"));
        self.failed.0 += failed;
        self.failed.1 += total;
        self.seconds = self.seconds.max(match metric(CELL_SECONDS) {
            Some(Metric::Gauge { last, .. }) => *last,
            _ => scenario_seconds,
        });
        if let Some(Metric::Trend(histogram)) = metric("http_req_duration") {
            self.latency.merge(histogram);
        }
    }

    fn cell(&self) -> Cell {
        let bytes = if self.bytes > 0 {
            self.bytes
        } else {
            self.wire
        };
        Cell {
            operations: per(self.requests, self.seconds),
            bytes: per(bytes, self.seconds),
            latency: Statistics::of(&self.latency),
            failed: self.failed,
        }
    }
}

impl Eq for Size {}

impl PartialOrd for Size {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Size {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0
            .total_cmp(&other.0)
            .then_with(|| self.1.cmp(&other.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn sizes_are_in_order_however_they_are_written() {
        let mut sizes = ["1MiB", "4 kB", "512", "8KiB", "4MB", "1 GB"];
        sizes.sort_by(|a, b| in_bytes(a).total_cmp(&in_bytes(b)));
        assert_eq!(sizes, ["512", "4 kB", "8KiB", "1MiB", "4MB", "1 GB"]);
    }

    #[test]
    fn cells_are_found_by_their_tags() {
        let matrix = matrix(&sample::objects()).unwrap();
        assert_eq!(matrix.rows, ["GET 4kB", "GET 1MB", "PUT 4kB", "PUT 1MB"]);
        assert_eq!(matrix.columns, ["×1", "×8", "×32"]);
        let cell = matrix.cells[2][2].unwrap();
        assert!((cell.operations - 3384.0).abs() < 1e-6, "{cell:?}");
        assert!((cell.bytes - 3384.0 * 4000.0).abs() < 1e-3, "{cell:?}");
    }

    #[test]
    fn a_run_without_cells_has_no_matrix() {
        assert_eq!(matrix(&sample::summary()), None);
    }
}
