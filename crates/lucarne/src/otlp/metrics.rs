//! Metrics: converts the text of `/metrics` (OpenMetrics) to OTLP.

use std::time::SystemTime;

use super::protobuf::{Message, attribute};
use super::traces::unix_ns;

/// `AggregationTemporality`: values since the start of the process.
const CUMULATIVE: u64 = 2;

/// Times of all values, in nanoseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// Begin of counters and histograms.
    pub(super) start: u64,
    /// Time of the values.
    pub(super) now: u64,
}

impl Times {
    /// Returns the times of values that were counted between `start` and `now`.
    pub(super) fn between(start: SystemTime, now: SystemTime) -> Self {
        let (start, now) = (unix_ns(start), unix_ns(now));
        // A clock that was set back must not put values before their begin: collectors refuse this.
        Times {
            start,
            now: now.max(start),
        }
    }
}

/// Returns each family of `text` as a `Metric`.
pub(super) fn encode(text: &str, times: Times) -> Vec<Message> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in text.lines() {
        let described = |start: &str| line.strip_prefix(start)?.split_once(' ');
        if let Some((name, help)) = described("# HELP ") {
            families.push(Family {
                name,
                help,
                ..Family::default()
            });
        } else if let Some(family) = families.last_mut() {
            if let Some((_, kind)) = described("# TYPE ") {
                family.kind = kind;
            } else if let Some((_, unit)) = described("# UNIT ") {
                family.unit = unit;
            } else if let Some(sample) = Sample::parse(line) {
                family.add(sample);
            }
        }
    }
    families.retain(|family| !family.points.is_empty());
    families.iter().map(|family| family.encode(times)).collect()
}

#[derive(Default)]
struct Family<'t> {
    name: &'t str,
    help: &'t str,
    kind: &'t str,
    unit: &'t str,
    points: Vec<Point>,
}

type Labels = Vec<(String, String)>;

/// The values of one set of labels.
#[derive(Default)]
struct Point {
    labels: Labels,
    /// The value, or the sum of a histogram.
    value: f64,
    /// Number of observations of a histogram.
    count: u64,
    /// Upper bounds of a histogram, with the number of observations up to each of them.
    buckets: Vec<(f64, u64)>,
}

impl Family<'_> {
    fn add(&mut self, mut sample: Sample<'_>) {
        if self.kind != "histogram" {
            let (labels, value) = (sample.labels, sample.value);
            return self.points.push(Point {
                labels,
                value,
                ..Point::default()
            });
        }
        let bound = sample.labels.iter().position(|(name, _)| name == "le");
        let bound = bound.map(|at| sample.labels.remove(at).1);
        if self
            .points
            .last()
            .is_none_or(|last| last.labels != sample.labels)
        {
            self.points.push(Point {
                labels: sample.labels,
                ..Point::default()
            });
        }
        let Some(point) = self.points.last_mut() else {
            return;
        };
        match sample.name.strip_prefix(self.name) {
            Some("_sum") => point.value = sample.value,
            Some("_count") => point.count = sample.value as u64,
            Some("_bucket") => {
                if let Some(bound) = bound.and_then(|bound| bound.parse().ok()) {
                    point.buckets.push((bound, sample.value as u64));
                }
            }
            _ => {}
        }
    }

    fn encode(&self, times: Times) -> Message {
        let unit = match self.unit {
            "seconds" => "s",
            "bytes" => "By",
            other => other,
        };
        let name = match self.kind {
            "info" => format!("{}_info", self.name),
            _ => self.name.to_owned(),
        };
        let metric = Message::default()
            .text(1, &name)
            .text(2, self.help)
            .text(3, unit);
        let points = self.points.iter();
        match self.kind {
            "histogram" => {
                let points = points.map(|point| point.histogram(times));
                let histogram = Message::default().messages(1, points);
                metric.message(9, &histogram.varint(2, CUMULATIVE))
            }
            "counter" => {
                let points = points.map(|point| point.number(Some(times.start), times.now));
                let sum = Message::default().messages(1, points);
                metric.message(7, &sum.varint(2, CUMULATIVE).varint(3, 1))
            }
            _ => {
                let points = points.map(|point| point.number(None, times.now));
                metric.message(5, &Message::default().messages(1, points))
            }
        }
    }
}

impl Point {
    fn attributes(&self) -> impl Iterator<Item = Message> {
        let labels = self.labels.iter();
        labels.map(|(name, value)| attribute(name, value))
    }

    /// Returns a `NumberDataPoint`.
    fn number(&self, start: Option<u64>, now: u64) -> Message {
        let point = match start {
            Some(start) => Message::default().fixed(2, start),
            None => Message::default(),
        };
        point
            .fixed(3, now)
            .double(4, self.value)
            .messages(7, self.attributes())
    }

    /// Returns a `HistogramDataPoint`, whose buckets are separate and not cumulative.
    fn histogram(&self, times: Times) -> Message {
        let before = self.buckets.iter().map(|(_, count)| *count);
        let before = std::iter::once(0).chain(before);
        let counts = self.buckets.iter().zip(before);
        let counts = counts.map(|((_, count), before)| count.saturating_sub(before));
        let bounds = self.buckets.iter().map(|(bound, _)| *bound);
        let bounds = bounds.filter(|bound| bound.is_finite());
        Message::default()
            .fixed(2, times.start)
            .fixed(3, times.now)
            .fixed(4, self.count)
            .double(5, self.value)
            .packed(6, counts)
            .packed(7, bounds.map(f64::to_bits))
            .messages(9, self.attributes())
    }
}

/// A line with a value.
#[derive(Debug, PartialEq)]
struct Sample<'t> {
    name: &'t str,
    labels: Labels,
    value: f64,
}

impl<'t> Sample<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at(end);
        let mut labels = Vec::new();
        if let Some(mut inside) = rest.strip_prefix('{') {
            while !inside.starts_with('}') {
                let (label, value) = inside.split_once("=\"")?;
                let (value, after) = quoted(value)?;
                labels.push((label.to_owned(), value));
                inside = after.strip_prefix(',').unwrap_or(after);
            }
            rest = &inside[1..];
        }
        let value = rest.split_whitespace().next()?.parse().ok()?;
        Some(Sample {
            name,
            labels,
            value,
        })
    }
}

/// Returns the text up to the closing quotation mark, without escapes, and the text after the
/// mark.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    loop {
        match letters.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            (_, other) => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TIMES: Times = Times { start: 1, now: 2 };

    #[test]
    fn values_are_not_before_their_begin() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(2);
        let second = Duration::from_secs(1);
        let later = Times::between(start, start + second);
        assert_eq!((later.start, later.now), (2_000_000_000, 3_000_000_000));
        let earlier = Times::between(start, start - second);
        assert_eq!(earlier.now, earlier.start);
    }

    #[test]
    fn samples_are_parsed() {
        let sample = Sample::parse(r#"a_total{log="x",path="a\"b\\c,}"} 3.5"#).unwrap();
        let labels = [("log", "x"), ("path", r#"a"b\c,}"#)];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!((sample.name, sample.value), ("a_total", 3.5));
        assert_eq!(sample.labels, labels);
        assert_eq!(Sample::parse("a 7").unwrap().value, 7.0);
        for invalid in ["", "a", "a{", r#"a{b="c"#, r#"a{b="c"}"#, "a x"] {
            assert_eq!(Sample::parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn a_counter_is_a_monotonic_sum() {
        let text = "# HELP a_requests Requests.\n# TYPE a_requests counter\n\
                    a_requests_total{code=\"200\"} 3\n# HELP b Empty.\n# TYPE b gauge\n# EOF\n";
        let point = Message::default()
            .fixed(2, 1)
            .fixed(3, 2)
            .double(4, 3.0)
            .message(7, &attribute("code", "200"));
        let sum = Message::default().message(1, &point);
        let metric = Message::default()
            .text(1, "a_requests")
            .text(2, "Requests.")
            .text(3, "")
            .message(7, &sum.varint(2, 2).varint(3, 1));
        assert_eq!(encode(text, TIMES), [metric]);
    }

    #[test]
    fn the_buckets_of_a_histogram_are_not_cumulative() {
        let text = "# HELP t Time.\n# TYPE t histogram\n# UNIT t seconds\nt_sum 0.5\nt_count 5\n\
                    t_bucket{le=\"1.0\"} 2\nt_bucket{le=\"2.0\"} 4\nt_bucket{le=\"+Inf\"} 5\n";
        let point = Message::default()
            .fixed(2, 1)
            .fixed(3, 2)
            .fixed(4, 5)
            .double(5, 0.5)
            .packed(6, [2, 2, 1])
            .packed(7, [1.0, 2.0].map(f64::to_bits));
        let histogram = Message::default().message(1, &point).varint(2, 2);
        let metric = Message::default()
            .text(1, "t")
            .text(2, "Time.")
            .text(3, "s")
            .message(9, &histogram);
        assert_eq!(encode(text, TIMES), [metric]);
    }
}
