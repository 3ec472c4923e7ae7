//! A synthetic run for the tests of reports.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::environment::Environment;
use crate::heat::{HEAT, heat_bounds};
use crate::note::Note;
use crate::summary::{Check, ErrorKind, SCHEMA, ScenarioSummary, Series, Status, Summary, TagList};
use crate::threshold::ThresholdResult;
use crate::timeline::{Point, PointRow, Timeline};
use crate::{Histogram, Metric, Verdict};

/// A text that must not get into a page or a terminal unescaped.
pub(crate) const EVIL: &str = "</script><img src=x onerror=alert(1)>&\"'\u{1b}[2J";

pub(crate) fn tags(pairs: &[(&str, &str)]) -> TagList {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Returns deterministic durations around `median` milliseconds with a long tail.
pub(crate) fn durations(count: u64, median: f64) -> Vec<Duration> {
    let spread = |i: u64| {
        let share = (i as f64 + 0.5) / count as f64;
        // Quantile function of a log-logistic distribution.
        median * (share / (1.0 - share)).powf(0.32)
    };
    (0..count)
        .map(|i| Duration::from_secs_f64(spread(i) / 1e3))
        .collect()
}

pub(crate) fn trend(durations: &[Duration]) -> Metric {
    let mut histogram = Histogram::new();
    durations
        .iter()
        .for_each(|&duration| histogram.record(duration));
    Metric::Trend(histogram)
}

fn series(pairs: &[(&str, &str)], requests: u64, failed: u64, median: f64) -> Series {
    let total = durations(requests, median);
    let phase = |share: f64| trend(&total.iter().map(|d| d.mul_f64(share)).collect::<Vec<_>>());
    let mut metrics = BTreeMap::new();
    let mut put = |name: &str, metric| metrics.insert(name.to_owned(), metric);
    put("http_reqs", Metric::Counter { count: requests });
    put(
        "http_req_failed",
        Metric::Rate {
            good: failed,
            total: requests,
        },
    );
    put("http_req_waiting", phase(0.8));
    put("http_req_receiving", phase(0.1));
    put("http_req_connecting", trend(&durations(12, 0.2)));
    put("http_req_duration", trend(&total));
    put(
        "data_sent",
        Metric::Counter {
            count: requests * 4_100,
        },
    );
    put(
        "data_received",
        Metric::Counter {
            count: requests * 620,
        },
    );
    put(
        "body_sent",
        Metric::Counter {
            count: requests * 3_900,
        },
    );
    put(
        "body_received",
        Metric::Counter {
            count: requests * 470,
        },
    );
    Series {
        tags: tags(pairs),
        metrics,
    }
}

fn iterations(scenario: &str, count: u64, median: f64) -> Series {
    let mut metrics = BTreeMap::new();
    metrics.insert("iterations".to_owned(), Metric::Counter { count });
    metrics.insert(
        "iteration_duration".to_owned(),
        trend(&durations(count, median)),
    );
    metrics.insert(
        "iteration_start_delay".to_owned(),
        trend(&durations(count, 0.05)),
    );
    Series {
        tags: tags(&[("scenario", scenario)]),
        metrics,
    }
}

fn heat(durations: &[Duration]) -> [u32; HEAT] {
    let bounds = heat_bounds();
    let mut heat = [0; HEAT];
    for duration in durations {
        heat[bounds
            .iter()
            .position(|end| duration <= end)
            .unwrap_or(HEAT - 1)] += 1;
    }
    heat
}

pub(crate) fn row(rate: u64, median: f64, failures: u64, dropped: u64) -> PointRow {
    let all = durations(rate - dropped, median);
    let at = |share: f64| all[(share * (all.len() - 1) as f64) as usize].as_micros() as u64;
    PointRow {
        asked: rate as f64,
        started: rate - dropped,
        iterations: rate - dropped,
        requests: rate - dropped,
        failures,
        dropped,
        users: if dropped > 0 { 80 } else { 20 },
        busy: (rate as f64 * median / 1e3).ceil() as u32,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        max: at(1.0),
        heat: heat(&all),
    }
}

fn timeline() -> Timeline {
    let point = |second: u64| {
        let stall = (30..33).contains(&second);
        let wobble = 1.0 + 0.25 * (second as f64 * 0.7).sin();
        let write = if stall {
            row(500, 700.0, 12, 20)
        } else {
            row(500, 9.0 * wobble, 0, 0)
        };
        Point {
            at: second as f64,
            scenarios: vec![write, row(300, 2.0 * wobble, 0, 0)],
        }
    };
    Timeline {
        interval: 1.0,
        points: (0..60).map(point).collect(),
    }
}

fn scenario(name: &str, kind: &str, rate: u64, dropped: u64) -> ScenarioSummary {
    let asked = rate * 60;
    ScenarioSummary {
        name: name.into(),
        kind: kind.into(),
        executor: format!("{rate}/s for 60s"),
        tags: vec![],
        asked,
        started: asked - dropped,
        completed: asked - dropped,
        dropped,
        interrupted: 0,
        achieved: (asked - dropped) as f64 / asked as f64,
        users_max: 80,
        duration: 60.0,
    }
}

fn threshold(
    metric: &str,
    expression: &str,
    observed: Option<f64>,
    passed: bool,
) -> ThresholdResult {
    ThresholdResult {
        metric: metric.into(),
        expression: expression.into(),
        observed,
        samples: observed.map_or(0, |_| 29_940),
        passed,
        aborted: false,
        built_in: false,
        part: false,
        reason: observed
            .is_none()
            .then(|| "there are no samples".to_owned()),
    }
}

pub(crate) fn errors() -> Vec<ErrorKind> {
    let error = |kind: &str, count, detail: &str| ErrorKind {
        scenario: "write".into(),
        kind: kind.into(),
        count,
        details: vec![detail.into()],
    };
    vec![
        error("timeout", 30, "no answer within 10s"),
        error("status", 6, EVIL),
    ]
}

pub(crate) fn thresholds() -> Vec<ThresholdResult> {
    vec![
        threshold(
            "http_req_duration{scenario:write}",
            "p(95)<500",
            Some(25.6),
            true,
        ),
        threshold("http_req_failed", "rate<0.0001", Some(0.00075), false),
        threshold("http_req_duration{scenario:wriet}", "p(99)<1s", None, false),
    ]
}

/// Returns a minute of writes and reads with a stall in the middle.
pub(crate) fn summary() -> Summary {
    let write = [("op", "add-chain"), ("scenario", "write")];
    let pre = [("op", "add-pre-chain"), ("scenario", "write")];
    let read = [("op", "tile"), ("scenario", "read")];
    let status = |pairs: &[(&str, &str)], code, count| Status {
        tags: tags(pairs),
        code,
        count,
    };
    let check = |name: &str, passes, fails, details: &[&str]| Check {
        tags: tags(&write),
        name: name.into(),
        passes,
        fails,
        excused: None,
        details: details.iter().map(|&detail| detail.into()).collect(),
    };
    Summary {
        schema: SCHEMA.into(),
        name: "writes and reads".into(),
        description: "A log under the load of a busy day.".into(),
        command: ["lucarne", "load", "run", "plans/busy day.yaml"]
            .map(str::to_owned)
            .to_vec(),
        environment: Environment {
            host: "bench-1".into(),
            system: "Linux".into(),
            kernel: "6.12.0".into(),
            processor: "A processor at 2.5 GHz".into(),
            cores: 8,
            memory: 16 << 30,
            version: "0.1.0".into(),
            threads: 1,
            process_cpu: Some(2.31),
            peak_memory: Some(48_300_000),
        },
        started: 1_795_305_600_000,
        duration: 60.02,
        attack: 59.998,
        wait: 0.0213,
        verdict: Verdict::Crossed,
        metrics: BTreeMap::new(),
        scenarios: vec![
            scenario("write", "ct-write", 500, 60),
            scenario("read", "ct-read", 300, 0),
        ],
        series: vec![
            iterations("write", 29_940, 10.0),
            iterations("read", 18_000, 2.1),
            series(&write, 20_000, 30, 10.0),
            series(&pre, 9_940, 6, 11.0),
            series(&read, 18_000, 0, 2.0),
        ],
        checks: vec![
            check("SCT signature", 29_904, 0, &[]),
            check(
                "leaf index",
                29_901,
                3,
                &["index 17 was promised, 18 is in the tile", EVIL],
            ),
        ],
        errors: errors(),
        statuses: vec![
            status(&write, 0, 30),
            status(&write, 200, 19_970),
            status(&pre, 200, 9_934),
            status(&pre, 503, 6),
            status(&read, 200, 18_000),
        ],
        protocols: vec![],
        thresholds: thresholds(),
        timeline: timeline(),
        connector_tier: Default::default(),
        lasting_failures: Some(vec![]),
        notes: vec![Note {
            title: "Audit".into(),
            lines: vec!["29904 promises, 29904 entries found".into(), EVIL.into()],
        }],
    }
}

/// Returns the matrix of an object store.
pub(crate) fn objects() -> Summary {
    let cells = [
        ("PUT", "4kB", 1, 111),
        ("PUT", "4kB", 8, 801),
        ("PUT", "4kB", 32, 3384),
        ("PUT", "1MB", 1, 21),
        ("PUT", "1MB", 8, 90),
        ("PUT", "1MB", 32, 112),
        ("GET", "4kB", 1, 905),
        ("GET", "4kB", 8, 5165),
        ("GET", "4kB", 32, 7666),
        ("GET", "1MB", 1, 101),
        ("GET", "1MB", 8, 402),
        ("GET", "1MB", 32, 421),
    ];
    let mut summary = Summary {
        schema: SCHEMA.into(),
        duration: 120.0,
        name: "objects".into(),
        ..Summary::default()
    };
    for (op, size, concurrency, rate) in cells {
        let concurrency_text = concurrency.to_string();
        let pairs = [
            ("concurrency", concurrency_text.as_str()),
            ("op", op),
            ("scenario", "cells"),
            ("size", size),
        ];
        let bytes = if size == "4kB" { 4_000 } else { 1_000_000 };
        let mut cell = series(
            &pairs,
            rate * 10,
            0,
            1e3 * f64::from(concurrency) / rate as f64,
        );
        cell.metrics.insert(
            "object_bytes".into(),
            Metric::Counter {
                count: rate * 10 * bytes,
            },
        );
        cell.metrics.insert(
            "cell_seconds".into(),
            Metric::Gauge {
                last: 10.0,
                min: 10.0,
                max: 10.0,
            },
        );
        summary.series.push(cell);
    }
    summary.scenarios.push(ScenarioSummary {
        name: "cells".into(),
        kind: "s3".into(),
        executor: "32 users for 120s".into(),
        duration: 120.0,
        achieved: 1.0,
        ..ScenarioSummary::default()
    });
    summary
}
