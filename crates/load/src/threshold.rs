//! Thresholds, in k6's grammar.

mod evaluate;
mod known;
pub(crate) mod of_parts;
mod of_scenario;
mod parse;

pub(crate) use known::EVERY_SCENARIO;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Returns whether every scenario records a metric of this name.
pub fn is_of_every_scenario(metric: &str) -> bool {
    known::of_every_scenario(metric).is_some()
}

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

/// Reasons why a threshold is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdProblem {
    /// The text has no expression.
    #[error("expected \"metric: expression\", as in \"http_req_failed: rate<0.01\"")]
    NoExpression,
    /// Metrics of this kind do not have the aggregation.
    #[error("{metric} is a {kind}: it has {known}")]
    Kind {
        /// Name of the metric.
        metric: String,
        /// Kind of the metric.
        kind: &'static str,
        /// Aggregations of this kind.
        known: &'static str,
    },
    /// No scenario of the run records the metric.
    #[error("\"{metric}\" is not a metric of this run{} metrics are {known}", advice(.near))]
    Unknown {
        /// Name of the metric.
        metric: String,
        /// Most similar metric of the run.
        near: Option<&'static str>,
        /// All metrics of the run.
        known: String,
    },
    /// The tag `scenario` names no scenario of the run.
    #[error("there is no scenario `{name}`; expected one of {known}")]
    Scenario {
        /// Value of the tag.
        name: String,
        /// Names of all scenarios of the run.
        known: String,
    },
    /// The bound has a unit, but is not a duration.
    #[error("only durations have a unit: write the number alone")]
    Unit,
    /// A `}` is missing.
    #[error("the {{ before the tags is not closed: add }}")]
    NotClosed,
    /// The braces are empty.
    #[error("there are no tags between {{ and }}")]
    NoTags,
    /// The name is not the name of a metric.
    #[error("\"{0}\" is not the name of a metric")]
    Metric(String),
    /// A tag has no colon.
    #[error("\"{0}\" is not a tag; expected name:value")]
    Tag(String),
    /// The expression has no operator.
    #[error("expected an aggregation, an operator and a number, as in \"p(95)<500\"")]
    NoOperator,
    /// The operator is unknown.
    #[error("the operator is unknown; expected <, <=, >, >=, == or !=")]
    Operator,
    /// The percentile is out of range.
    #[error("\"{0}\" is not a percentile between 0 and 100")]
    Percentile(String),
    /// The aggregation is unknown.
    #[error(
        "\"{0}\" is not an aggregation; expected avg, min, max, med, p(N), count, rate or value"
    )]
    Aggregation(String),
    /// The bound is not a number.
    #[error("\"{0}\" is not a number")]
    Number(String),
}

/// Returns the middle of the message about an unknown metric.
fn advice(near: &Option<&str>) -> String {
    match near {
        Some(near) => format!("; did you mean `{near}`? The"),
        None => "; the".to_owned(),
    }
}

impl Threshold {
    /// Adapts the threshold to a run whose time and number of iterations are multiplied by these
    /// factors: its delay becomes shorter, and a minimum count smaller.
    pub fn shorten(&mut self, time: f64, iterations: f64) {
        self.delay_abort_eval = self.delay_abort_eval.mul_f64(time);
        let floor = matches!(self.operator, Operator::Greater | Operator::GreaterOrEqual);
        if self.aggregation == Aggregation::Count && floor && self.bound > 1.0 {
            self.bound = (self.bound * iterations).floor().max(1.0);
            self.expression = format!("count{}{}", self.operator.sign(), self.bound);
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
    /// Whether a threshold on all requests was crossed by the part that `metric` names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub part: bool,
    /// Reason of a failure that the figures do not show.
    pub reason: Option<String>,
}
