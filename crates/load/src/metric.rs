//! The four kinds of metrics, k6's.

use std::time::Duration;

use crate::Histogram;

/// What has been measured under one name and one set of tags.
#[derive(Clone, Debug)]
pub enum Metric {
    /// Durations.
    Trend(Histogram),
    /// How often something was so.
    Rate {
        /// How often it was so.
        good: u64,
        /// Out of how many.
        total: u64,
    },
    /// A sum.
    Counter {
        /// The sum.
        count: u64,
    },
    /// A value that goes up and down.
    Gauge {
        /// The last value.
        last: f64,
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
    },
}

impl Metric {
    /// `"trend"`, `"rate"`, `"counter"` or `"gauge"`.
    pub fn kind(&self) -> &'static str {
        match self {
            Metric::Trend(_) => "trend",
            Metric::Rate { .. } => "rate",
            Metric::Counter { .. } => "counter",
            Metric::Gauge { .. } => "gauge",
        }
    }

    /// How many samples it is made of. A gauge counts as one.
    pub fn samples(&self) -> u64 {
        match self {
            Metric::Trend(histogram) => histogram.count(),
            Metric::Rate { total, .. } => *total,
            Metric::Counter { count } => *count,
            Metric::Gauge { .. } => 1,
        }
    }

    /// The durations of a trend.
    pub fn trend(&self) -> Option<&Histogram> {
        match self {
            Metric::Trend(histogram) => Some(histogram),
            _ => None,
        }
    }

    /// Adds up two metrics of one kind; of different kinds, the first one stays
    /// as it is.
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
                *good += more;
                *total += of;
            }
            (Metric::Counter { count }, Metric::Counter { count: more }) => *count += more,
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
