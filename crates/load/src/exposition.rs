//! Metrics of a run in progress, in the OpenMetrics text format.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use crate::histogram::Histogram;
use crate::metric::{Metric, is_time_share};
use crate::samples::{Figure, Samples};
use crate::tags::TagRegistry;
use crate::threshold::ThresholdResult;

/// Limit of time series, of which a histogram has one for each bucket.
const MOST: usize = 2000;

/// Beginning of all names.
const PREFIX: &str = "lucarne_load";

/// Counters of bytes.
const BYTES: [&str; 4] = ["body_received", "body_sent", "data_received", "data_sent"];

/// Upper bounds of the buckets of histograms, in milliseconds.
const BOUNDS: [f64; 13] = [
    1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0,
];

/// Series of a run. A series that was exposed once stays, so that its counters have no gaps.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    exposed: HashSet<String>,
    /// Number of time series of `exposed`.
    count: usize,
}

/// The metrics of one moment.
struct Page<'e> {
    series: &'e mut Exposition,
    families: BTreeMap<String, Family>,
    dropped: usize,
}

/// Samples under one name.
struct Family {
    kind: &'static str,
    samples: String,
}

/// Labels of a sample, escaped.
type Labels = Vec<(String, String)>;

impl Exposition {
    /// Renders all samples so far, and the state of the thresholds.
    pub(crate) fn render(
        &mut self,
        samples: &Samples,
        registry: &TagRegistry,
        thresholds: &[ThresholdResult],
    ) -> String {
        let mut page = Page {
            series: self,
            families: BTreeMap::new(),
            dropped: 0,
        };
        for threshold in thresholds {
            // Before the first sample, a threshold is not crossed.
            let crossed = threshold.observed.is_some() && !threshold.passed;
            let text = format!("{}: {}", threshold.metric, threshold.expression);
            let labels = vec![label("threshold", &text)];
            page.one("threshold_crossed", "gauge", &labels, f64::from(crossed));
        }
        for (number, series) in samples.iter() {
            let tags = registry.get(number);
            let tags = tags.iter().flat_map(|tags| tags.iter());
            let mut labels: Labels = Vec::new();
            for (name, value) in tags.map(|(name, value)| label(name, value)) {
                // Two tags can have the same label, because labels allow fewer characters.
                if labels.iter().all(|(known, _)| *known != name) {
                    labels.push((name, value));
                }
            }
            series.figures(|name, figure| page.figure(name, &labels, figure));
            for check in &series.checks {
                let labels = with(&labels, "check", check.name);
                page.one("check_passes", "counter", &labels, check.good as f64);
                page.one("check_fails", "counter", &labels, check.bad as f64);
            }
            for (status, count) in &series.requests.statuses {
                let labels = with(&labels, "status", &status.to_string());
                page.one("responses", "counter", &labels, *count as f64);
            }
            for error in &series.errors {
                let labels = with(&labels, "kind", error.name);
                page.one("failures", "counter", &labels, error.bad as f64);
            }
        }
        page.finish()
    }
}

impl Page<'_> {
    fn figure(&mut self, name: &str, labels: &Labels, figure: Figure<'_>) {
        match figure {
            Figure::Trend(histogram) => self.histogram(name, labels, histogram),
            // The target may respond again.
            Figure::Other(Metric::Rate { good, .. }) if name == "target_silent" => {
                self.one(name, "gauge", labels, good as f64);
            }
            Figure::Other(Metric::Rate { good, total }) => {
                // Shares of time are in milliseconds.
                let (unit, per_unit) = if is_time_share(name) {
                    ("_seconds", 1e3)
                } else {
                    ("", 1.0)
                };
                let (good, total) = (good as f64 / per_unit, total as f64 / per_unit);
                self.one(&format!("{name}_true{unit}"), "counter", labels, good);
                self.one(&format!("{name}_samples{unit}"), "counter", labels, total);
            }
            Figure::Other(Metric::Counter { count }) => {
                let unit = if BYTES.contains(&name) { "_bytes" } else { "" };
                self.one(&format!("{name}{unit}"), "counter", labels, count as f64);
            }
            Figure::Other(Metric::Gauge { last, .. }) => self.one(name, "gauge", labels, last),
            Figure::Other(Metric::Trend(histogram)) => self.histogram(name, labels, &histogram),
        }
    }

    fn one(&mut self, name: &str, kind: &'static str, labels: &Labels, value: f64) {
        let suffix = if kind == "counter" { "_total" } else { "" };
        if let Some((name, samples)) = self.open(name, kind, labels, 1) {
            sample(samples, &format!("{name}{suffix}"), labels, value);
        }
    }

    fn histogram(&mut self, name: &str, labels: &Labels, histogram: &Histogram) {
        let name = format!("{name}_seconds");
        let Some((name, samples)) = self.open(&name, "histogram", labels, BOUNDS.len() + 3) else {
            return;
        };
        let mut counts = [0; BOUNDS.len()];
        for (value, count) in histogram.buckets() {
            let milliseconds = value.as_secs_f64() * 1e3;
            let bucket = BOUNDS.partition_point(|bound| *bound < milliseconds);
            if let Some(known) = counts.get_mut(bucket) {
                *known += count;
            }
        }
        let bucket = format!("{name}_bucket");
        let mut sum = 0;
        for (bound, count) in BOUNDS.iter().zip(counts) {
            sum += count;
            let labels = with(labels, "le", &format!("{:?}", bound / 1e3));
            sample(samples, &bucket, &labels, sum as f64);
        }
        let all = histogram.count() as f64;
        sample(samples, &bucket, &with(labels, "le", "+Inf"), all);
        let total = histogram.sum().as_secs_f64();
        sample(samples, &format!("{name}_sum"), labels, total);
        sample(samples, &format!("{name}_count"), labels, all);
    }

    /// Returns the name and the samples of the family for this number of series, unless this would
    /// exceed the limit.
    fn open(
        &mut self,
        name: &str,
        kind: &'static str,
        labels: &Labels,
        count: usize,
    ) -> Option<(String, &mut String)> {
        let name = format!("{PREFIX}_{}", allowed(name));
        let mut key = String::new();
        sample(&mut key, &name, labels, 0.0);
        if !self.series.exposed.contains(&key) {
            if self.series.count + count > MOST {
                self.dropped += count;
                return None;
            }
            self.series.count += count;
            self.series.exposed.insert(key);
        }
        let family = self.families.entry(name.clone()).or_insert(Family {
            kind,
            samples: String::new(),
        });
        Some((name, &mut family.samples))
    }

    fn finish(self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, samples: &str| {
            let metric = name.trim_start_matches(PREFIX).trim_start_matches('_');
            // Writing to a string never fails.
            let _ = writeln!(text, "# HELP {name} Metric {metric} of the load test.");
            let _ = writeln!(text, "# TYPE {name} {kind}");
            text.push_str(samples);
        };
        for (name, Family { kind, samples }) in &self.families {
            family(name, kind, samples);
        }
        let name = format!("{PREFIX}_series_dropped");
        family(&name, "gauge", &format!("{name} {}\n", self.dropped));
        text.push_str("# EOF\n");
        text
    }
}

fn sample(out: &mut String, name: &str, labels: &Labels, value: f64) {
    out.push_str(name);
    for (index, (label, value)) in labels.iter().enumerate() {
        let begin = if index == 0 { '{' } else { ',' };
        // Writing to a string never fails.
        let _ = write!(out, "{begin}{label}=\"{value}\"");
    }
    let end = if labels.is_empty() { "" } else { "}" };
    let _ = writeln!(out, "{end} {value}");
}

fn with(labels: &Labels, name: &str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name.to_owned(), escaped(value)));
    labels
}

/// Returns the label of a tag.
fn label(name: &str, value: &str) -> (String, String) {
    let name = match name {
        // Names of other labels of the same samples.
        "le" | "check" | "status" | "kind" => format!("tag_{name}"),
        name => name.to_owned(),
    };
    (allowed(&name), escaped(value))
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

/// Replaces the characters that names cannot have.
fn allowed(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(allowed).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("_{name}")
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::exchange::Exchange;

    fn request(samples: &mut Samples, tags: crate::Tags, milliseconds: u64) {
        let mut exchange = Exchange::without_response(std::time::Instant::now(), "HTTP/2", Ok(()));
        exchange.finished = exchange.started + Duration::from_millis(milliseconds);
        exchange.status = 200;
        samples.request(tags, &exchange, exchange.started);
    }

    #[test]
    fn samples_and_thresholds_are_rendered() {
        let registry = TagRegistry::default();
        let tags = registry.base("s", &[("a-b".into(), "\"x\"\n".into())]);
        let mut samples = Samples::default();
        for time in [1, 4, 20_000] {
            request(&mut samples, tags, time);
        }
        samples.check(tags, "good", Err::<(), _>("no"), true);
        let threshold = |observed, passed| ThresholdResult {
            metric: "checks".into(),
            expression: format!("rate>{passed}"),
            observed,
            passed,
            ..ThresholdResult::default()
        };
        let thresholds = [threshold(Some(1.0), true), threshold(Some(0.0), false)];
        let text = Exposition::default().render(&samples, &registry, &thresholds);
        for line in [
            "# TYPE lucarne_load_http_req_duration_seconds histogram",
            "lucarne_load_http_req_duration_seconds_bucket{a_b=\"\\\"x\\\"\\n\",scenario=\"s\",le=\"0.005\"} 2",
            "lucarne_load_http_req_duration_seconds_bucket{a_b=\"\\\"x\\\"\\n\",scenario=\"s\",le=\"10.0\"} 2",
            "lucarne_load_http_req_duration_seconds_bucket{a_b=\"\\\"x\\\"\\n\",scenario=\"s\",le=\"+Inf\"} 3",
            "lucarne_load_http_req_duration_seconds_sum{a_b=\"\\\"x\\\"\\n\",scenario=\"s\"} 20.005",
            "# TYPE lucarne_load_http_reqs counter",
            "lucarne_load_http_reqs_total{a_b=\"\\\"x\\\"\\n\",scenario=\"s\"} 3",
            "lucarne_load_responses_total{a_b=\"\\\"x\\\"\\n\",scenario=\"s\",status=\"200\"} 3",
            "lucarne_load_check_fails_total{a_b=\"\\\"x\\\"\\n\",scenario=\"s\",check=\"good\"} 1",
            "lucarne_load_threshold_crossed{threshold=\"checks: rate>true\"} 0",
            "lucarne_load_threshold_crossed{threshold=\"checks: rate>false\"} 1",
            "lucarne_load_series_dropped 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn names_have_the_units_of_their_values() {
        let mut exposition = Exposition::default();
        let mut page = Page {
            series: &mut exposition,
            families: BTreeMap::new(),
            dropped: 0,
        };
        let rate = |good, total| Figure::Other(Metric::Rate { good, total });
        let sent = Figure::Other(Metric::Counter { count: 5 });
        page.figure("data_sent", &Vec::new(), sent);
        page.figure("target_silent", &Vec::new(), rate(0, 1));
        page.figure("vu_time_lost", &Vec::new(), rate(1500, 3000));
        let text = page.finish();
        for line in [
            "lucarne_load_data_sent_bytes_total 5",
            "# TYPE lucarne_load_target_silent gauge",
            "lucarne_load_target_silent 0",
            "lucarne_load_vu_time_lost_true_seconds_total 1.5",
            "lucarne_load_vu_time_lost_samples_seconds_total 3",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_number_of_series_is_bounded_and_the_first_ones_stay() {
        let registry = TagRegistry::default();
        let base = registry.base("s", &[]);
        let mut samples = Samples::default();
        let mut exposition = Exposition::default();
        let mut render = |number: usize| {
            let tags = registry.extend(base, &[("op", &number.to_string())]);
            request(&mut samples, tags, 1);
            exposition.render(&samples, &registry, &[])
        };
        let pages: Vec<String> = (0..200).map(&mut render).collect();
        let series = |page: &str| page.lines().filter(|line| !line.starts_with('#')).count();
        let counts: Vec<_> = pages.iter().map(|page| series(page)).collect();
        assert!(
            counts.windows(2).all(|pair| pair[0] <= pair[1]),
            "{counts:?}"
        );
        // The number of dropped series is the last series.
        assert!(
            (MOST - 20..=MOST + 1).contains(&counts[199]),
            "{}",
            counts[199]
        );
        let dropped = |page: &str| {
            let line = page
                .lines()
                .find(|it| it.starts_with("lucarne_load_series_dropped "));
            line.unwrap()
                .rsplit_once(' ')
                .unwrap()
                .1
                .parse::<usize>()
                .unwrap()
        };
        assert_eq!(dropped(&pages[0]), 0);
        let each = series(&pages[0]) - 1;
        assert_eq!(counts[199] - 1 + dropped(&pages[199]), 200 * each);
    }
}
