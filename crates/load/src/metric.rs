//! The four kinds of metrics of k6.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Histogram;
use crate::histogram::{Exact, HistogramError};

/// Measurements under one name and one set of tags.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub enum Metric {
    /// Distribution of durations.
    Trend(Histogram),
    /// Share of true values.
    Rate {
        /// Number of true values.
        good: u64,
        /// Number of all values.
        total: u64,
    },
    /// A count that only increases.
    Counter {
        /// Sum of all added numbers.
        count: u64,
    },
    /// A value that goes up and down.
    Gauge {
        /// Last value.
        last: f64,
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
}

impl Metric {
    /// Returns `"trend"`, `"rate"`, `"counter"` or `"gauge"`.
    pub fn kind(&self) -> &'static str {
        match self {
            Metric::Trend(_) => "trend",
            Metric::Rate { .. } => "rate",
            Metric::Counter { .. } => "counter",
            Metric::Gauge { .. } => "gauge",
        }
    }

    /// Returns the number of samples; a gauge counts as one.
    pub fn samples(&self) -> u64 {
        match self {
            Metric::Trend(histogram) => histogram.count(),
            Metric::Rate { total, .. } => *total,
            Metric::Counter { count } => *count,
            Metric::Gauge { .. } => 1,
        }
    }

    /// Returns the durations of a trend; `None` for the other kinds.
    pub fn trend(&self) -> Option<&Histogram> {
        match self {
            Metric::Trend(histogram) => Some(histogram),
            _ => None,
        }
    }

    /// Merges a metric of the same kind; a metric of another kind is ignored.
    pub fn merge(&mut self, other: &Metric) {
        match (self, other) {
            (Metric::Trend(mine), Metric::Trend(theirs)) => mine.merge(theirs),
            (
                Metric::Rate { good, total },
                Metric::Rate {
                    good: more,
                    total: of,
                },
            ) => {
                *good = good.saturating_add(*more);
                *total = total.saturating_add(*of);
            }
            (Metric::Counter { count }, Metric::Counter { count: more }) => {
                *count = count.saturating_add(*more);
            }
            (
                Metric::Gauge { last, min, max },
                Metric::Gauge {
                    last: now,
                    min: low,
                    max: high,
                },
            ) => {
                *last = *now;
                *min = min.min(*low);
                *max = max.max(*high);
            }
            _ => {}
        }
    }

    pub(crate) fn one_gauge(value: f64) -> Self {
        Metric::Gauge {
            last: value,
            min: value,
            max: value,
        }
    }

    pub(crate) fn one_duration(value: Duration) -> Self {
        let mut histogram = Histogram::new();
        histogram.record(value);
        Metric::Trend(histogram)
    }
}

/// A metric as JSON: the data for merging, and readable figures.
#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Stored {
    Trend {
        #[serde(default)]
        count: u64,
        #[serde(flatten, skip_deserializing)]
        statistics: Statistics,
        nanoseconds: Exact,
        histogram: String,
    },
    Rate {
        #[serde(default)]
        rate: f64,
        good: u64,
        total: u64,
    },
    Counter {
        count: u64,
    },
    Gauge {
        value: f64,
        min: f64,
        max: f64,
    },
}

/// Statistics in milliseconds, under k6's names.
#[derive(Clone, Default, Serialize)]
struct Statistics {
    avg: f64,
    min: f64,
    med: f64,
    max: f64,
    #[serde(rename = "p(90)")]
    p90: f64,
    #[serde(rename = "p(95)")]
    p95: f64,
    #[serde(rename = "p(99)")]
    p99: f64,
    #[serde(rename = "p(99.9)")]
    p999: f64,
}

/// Returns a metric's figures under k6's names; `seconds` is the time base of its rate.
pub(crate) fn k6_values(metric: &Metric, seconds: f64) -> BTreeMap<&'static str, f64> {
    let per_second = |count: u64| {
        if seconds > 0.0 {
            count as f64 / seconds
        } else {
            0.0
        }
    };
    match metric {
        Metric::Trend(histogram) => {
            let all = Statistics::of(histogram);
            BTreeMap::from([
                ("avg", all.avg),
                ("min", all.min),
                ("med", all.med),
                ("max", all.max),
                ("p(90)", all.p90),
                ("p(95)", all.p95),
                ("p(99)", all.p99),
                ("p(99.9)", all.p999),
                ("count", histogram.count() as f64),
            ])
        }
        Metric::Rate { good, total } => BTreeMap::from([
            ("rate", *good as f64 / (*total).max(1) as f64),
            ("passes", *good as f64),
            ("fails", total.saturating_sub(*good) as f64),
        ]),
        Metric::Counter { count } => {
            BTreeMap::from([("count", *count as f64), ("rate", per_second(*count))])
        }
        Metric::Gauge { last, min, max } => {
            BTreeMap::from([("value", *last), ("min", *min), ("max", *max)])
        }
    }
}

/// Converts to milliseconds with the precision of nanoseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

impl Statistics {
    fn of(histogram: &Histogram) -> Self {
        let ps = histogram.percentiles(&[50.0, 90.0, 95.0, 99.0, 99.9]);
        let percentile = |index: usize| milliseconds(ps[index]);
        Statistics {
            avg: milliseconds(histogram.mean()),
            min: milliseconds(histogram.min()),
            med: percentile(0),
            max: milliseconds(histogram.max()),
            p90: percentile(1),
            p95: percentile(2),
            p99: percentile(3),
            p999: percentile(4),
        }
    }
}

impl From<Metric> for Stored {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::Trend(histogram) => Stored::Trend {
                count: histogram.count(),
                statistics: Statistics::of(&histogram),
                nanoseconds: histogram.exact(),
                histogram: histogram.encode(),
            },
            Metric::Rate { good, total } => Stored::Rate {
                rate: good as f64 / total.max(1) as f64,
                good,
                total,
            },
            Metric::Counter { count } => Stored::Counter { count },
            Metric::Gauge { last, min, max } => Stored::Gauge {
                value: last,
                min,
                max,
            },
        }
    }
}

impl TryFrom<Stored> for Metric {
    type Error = HistogramError;

    fn try_from(stored: Stored) -> Result<Self, HistogramError> {
        Ok(match stored {
            Stored::Trend {
                nanoseconds,
                histogram,
                ..
            } => Metric::Trend(Histogram::decode(&histogram, nanoseconds)?),
            Stored::Rate { good, total, .. } => Metric::Rate { good, total },
            Stored::Counter { count } => Metric::Counter { count },
            Stored::Gauge { value, min, max } => Metric::Gauge {
                last: value,
                min,
                max,
            },
        })
    }
}

/// Splits `wanted` into the check, status or kind of error that selects a part of `metric`, and the
/// remaining tags.
pub(crate) fn narrowing<'t>(
    metric: &str,
    wanted: &[(&'t str, &'t str)],
) -> (Option<&'t str>, Vec<(&'t str, &'t str)>) {
    let name = match metric {
        "checks" => Some("check"),
        "http_reqs" => Some("status"),
        "errors" => Some("kind"),
        _ => None,
    };
    let narrow = wanted.iter().find(|(tag, _)| Some(*tag) == name);
    let rest = wanted.iter().filter(|tag| Some(*tag) != narrow);
    (narrow.map(|(_, value)| *value), rest.copied().collect())
}

pub(crate) fn sum(mut mine: Metric, theirs: Metric) -> Metric {
    mine.merge(&theirs);
    mine
}

/// Returns whether a rate is a share of time, in milliseconds.
pub(crate) fn is_time_share(name: &str) -> bool {
    name.starts_with("vu_time_")
}

/// Returns whether a counter counts bytes.
pub(crate) fn is_bytes(name: &str) -> bool {
    name.starts_with("data_")
        || name.starts_with("body_")
        || name.ends_with("_bytes")
        || name.starts_with("bytes")
}
