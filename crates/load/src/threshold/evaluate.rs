//! Evaluation of thresholds.

use super::{Aggregation, Operator, Threshold, ThresholdResult};
use crate::metric::{Metric, milliseconds};

impl Threshold {
    /// Evaluates the threshold. `select` merges a metric over the series with some tags, and
    /// returns `None` without samples; `seconds` is the duration of the samples.
    pub fn evaluate(
        &self,
        select: impl FnOnce(&str, &[(&str, &str)]) -> Option<Metric>,
        seconds: f64,
    ) -> ThresholdResult {
        let tags: Vec<_> = self
            .tags
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let metric = select(&self.metric, &tags);
        let observed = metric
            .as_ref()
            .and_then(|metric| self.aggregation.of_metric(metric, seconds));
        let reason = match (&metric, observed) {
            (None, _) => Some("no samples".into()),
            (Some(metric), None) => Some(self.misfit(metric)),
            _ => None,
        };
        ThresholdResult {
            metric: self.key.clone(),
            expression: self.expression.clone(),
            observed,
            samples: metric.map_or(0, |metric| metric.samples()),
            passed: observed.is_some_and(|observed| self.operator.holds(observed, self.bound)),
            aborted: false,
            built_in: self.built_in,
            part: false,
            reason,
        }
    }

    fn misfit(&self, metric: &Metric) -> String {
        match metric.samples() {
            0 => "no samples".into(),
            _ => {
                let kind = metric.kind();
                format!(
                    "{} is a {kind}: it has {}",
                    self.metric,
                    Aggregation::of(kind)
                )
            }
        }
    }
}

impl Aggregation {
    /// Returns the value of the aggregation, or `None` if the metric has no such aggregation, or no
    /// samples.
    fn of_metric(self, metric: &Metric, seconds: f64) -> Option<f64> {
        Some(match (self, metric) {
            (Aggregation::Count, Metric::Counter { count }) => *count as f64,
            (Aggregation::Rate, Metric::Counter { count }) if seconds > 0.0 => {
                *count as f64 / seconds
            }
            (Aggregation::Rate, Metric::Rate { good, total }) if *total > 0 => {
                *good as f64 / *total as f64
            }
            (Aggregation::Value, Metric::Gauge { last, .. }) => *last,
            (Aggregation::Min, Metric::Gauge { min, .. }) => *min,
            (Aggregation::Max, Metric::Gauge { max, .. }) => *max,
            (_, Metric::Trend(histogram)) if !histogram.is_empty() => match self {
                Aggregation::Avg => milliseconds(histogram.mean()),
                Aggregation::Min => milliseconds(histogram.min()),
                Aggregation::Max => milliseconds(histogram.max()),
                Aggregation::Med => milliseconds(histogram.percentile(50.0)),
                Aggregation::Percentile(p) => milliseconds(histogram.percentile(p)),
                Aggregation::Count => histogram.count() as f64,
                Aggregation::Rate | Aggregation::Value => return None,
            },
            _ => return None,
        })
    }
}

impl Operator {
    /// Returns the operator as in expressions.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Equal => "==",
            Operator::Different => "!=",
        }
    }

    pub(super) fn holds(self, observed: f64, bound: f64) -> bool {
        match self {
            Operator::Less => observed < bound,
            Operator::LessOrEqual => observed <= bound,
            Operator::Greater => observed > bound,
            Operator::GreaterOrEqual => observed >= bound,
            Operator::Equal => observed == bound,
            Operator::Different => observed != bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Histogram;

    fn evaluate(expression: &str, metric: Option<Metric>) -> ThresholdResult {
        Threshold::new("custom", expression)
            .unwrap()
            .evaluate(|_, _| metric, 10.0)
    }

    #[test]
    fn every_aggregation_of_every_kind() {
        let mut histogram = Histogram::new();
        (1..=100).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        let trend = Some(Metric::Trend(histogram));
        let counter = Some(Metric::Counter { count: 50 });
        let rate = Some(Metric::Rate {
            good: 1,
            total: 100,
        });
        let gauge = Some(Metric::Gauge {
            last: 5.0,
            min: 1.0,
            max: 9.0,
        });
        for (holds, fails, metric) in [
            ("p(95)<96", "p(95)<95", &trend),
            ("avg<=50.5", "avg<50.5", &trend),
            ("min>=1", "min>1", &trend),
            ("max==100", "max!=100", &trend),
            ("med<0.0506s", "med<50ms", &trend),
            ("count==100", "count>100", &trend),
            ("count>=50", "count>50", &counter),
            ("rate>4.9", "rate>5", &counter),
            ("rate<0.02", "rate<0.01", &rate),
            ("value==5", "value<5", &gauge),
            ("max<10", "min<1", &gauge),
        ] {
            assert!(evaluate(holds, metric.clone()).passed, "{holds}");
            let failed = evaluate(fails, metric.clone());
            assert!(!failed.passed && failed.reason.is_none(), "{failed:?}");
        }
    }

    #[test]
    fn no_samples_fail_and_say_so() {
        let empty = [
            None,
            Some(Metric::Rate { good: 0, total: 0 }),
            Some(Metric::Trend(Histogram::new())),
        ];
        for metric in empty {
            let result = evaluate("rate<1", metric);
            assert!(!result.passed);
            assert_eq!(result.reason.as_deref(), Some("no samples"));
        }
    }

    #[test]
    fn a_counter_of_nothing_counts() {
        assert!(evaluate("count<1", Some(Metric::Counter { count: 0 })).passed);
    }

    #[test]
    fn the_wrong_aggregation_fails_and_says_so() {
        let result = evaluate("p(95)<1", Some(Metric::Counter { count: 1 }));
        assert_eq!(
            result.reason.as_deref(),
            Some("custom is a counter: it has count and rate")
        );
        assert!(!result.passed);
    }
}
