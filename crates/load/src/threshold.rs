//! Thresholds, in k6's grammar.

mod evaluate;
mod known;
mod of_scenario;
mod parse;

pub(crate) use known::EVERY_SCENARIO;
pub use parse::ThresholdProblem;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Thresholds of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thresholds(pub Vec<Threshold>);

/// A threshold.
///
/// The key is `metric` or `metric{tag:value,tag2:value}`. The expression consists of an
/// aggregation, an operator (`<`, `<=`, `>`, `>=`, `==` or `!=`) and a number:
///
/// | metric | aggregations |
/// |---|---|
/// | trend | `avg`, `min`, `max`, `med`, `p(95)`, `count` |
/// | counter | `count`, `rate` (per second) |
/// | rate | `rate` (0 to 1) |
/// | gauge | `value`, `min`, `max` |
///
/// Durations are in milliseconds, as in k6, or have a unit: `500ms`, `2s`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use lucarne_load::threshold::Threshold;
/// use lucarne_load::{Histogram, Metric};
///
/// let threshold = Threshold::new("http_req_duration{op:read}", "p(95)<500ms")?;
/// let mut durations = Histogram::new();
/// durations.record(Duration::from_millis(20));
/// let result = threshold.evaluate(|_, _| Some(Metric::Trend(durations)), 1.0);
/// assert!(result.passed);
/// # Ok::<(), lucarne_load::threshold::ThresholdError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// Key as written.
    pub key: String,
    /// Expression as written.
    pub expression: String,
    /// Whether a crossed threshold aborts the run.
    pub abort_on_fail: bool,
    /// Earliest time after the start at which the threshold may abort the run.
    pub delay_abort_eval: Duration,
    metric: String,
    tags: Vec<(String, String)>,
    aggregation: Aggregation,
    operator: Operator,
    bound: f64,
    has_unit: bool,
    built_in: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Aggregation {
    Avg,
    Min,
    Max,
    Med,
    Percentile(f64),
    Count,
    Rate,
    Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Different,
}

/// An invalid threshold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("threshold \"{threshold}\": {problem}")]
pub struct ThresholdError {
    /// Text of the threshold.
    pub threshold: String,
    /// Reason why the threshold is invalid.
    pub problem: ThresholdProblem,
}

impl Threshold {
    /// Adapts the threshold to a run whose time is multiplied by `factor`: a minimum count becomes
    /// smaller, and its delay shorter.
    pub(crate) fn shorten(&mut self, factor: f64) {
        self.delay_abort_eval = self.delay_abort_eval.mul_f64(factor);
        let floor = matches!(self.operator, Operator::Greater | Operator::GreaterOrEqual);
        if self.aggregation == Aggregation::Count && floor && self.bound > 1.0 {
            self.bound = (self.bound * factor).floor().max(1.0);
            let sign = match self.operator {
                Operator::Greater => ">",
                _ => ">=",
            };
            self.expression = format!("count{sign}{}", self.bound);
        }
    }

    /// Returns whether the threshold is built in, and not from the plan or the scenario's defaults.
    pub(crate) fn is_built_in(&self) -> bool {
        self.built_in
    }

    pub(crate) fn error(&self, problem: ThresholdProblem) -> ThresholdError {
        ThresholdError {
            threshold: format!("{}: {}", self.key, self.expression),
            problem,
        }
    }

    /// Returns the name of the metric.
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// Returns the tags that the series must have.
    pub fn tags(&self) -> &[(String, String)] {
        &self.tags
    }
}

/// Result of a threshold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThresholdResult {
    /// Metric with its tags: `metric` or `metric{tag:value}`.
    pub metric: String,
    /// Expression, for example `p(95)<500`.
    pub expression: String,
    /// Measured value in the expression's unit, which is milliseconds for durations. `None` without
    /// samples.
    pub observed: Option<f64>,
    /// Number of samples.
    pub samples: u64,
    /// Whether the threshold passed.
    pub passed: bool,
    /// Whether the threshold aborted the run.
    pub aborted: bool,
    /// Whether the threshold is built in: the engine adds it to every scenario, without a key in
    /// the plan.
    pub built_in: bool,
    /// Reason of a failure that the figures do not show.
    pub reason: Option<String>,
}
