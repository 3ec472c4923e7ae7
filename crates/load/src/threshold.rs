//! Thresholds, in k6's grammar.

mod demands;
mod evaluate;
mod parse;

pub(crate) use demands::complete;
pub use parse::ThresholdProblem;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The thresholds of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thresholds(pub Vec<Threshold>);

/// One threshold.
///
/// Its key is `metric` or `metric{tag:value,tag2:value}`. Its expression is an
/// aggregation, one of `<`, `<=`, `>`, `>=`, `==`, `!=`, and a number:
///
/// | metric | aggregations |
/// |---|---|
/// | trend | `avg`, `min`, `max`, `med`, `p(95)`, `count` |
/// | counter | `count`, `rate` (per second) |
/// | rate | `rate` (0 to 1) |
/// | gauge | `value`, `min`, `max` |
///
/// Durations are in milliseconds, as in k6, or have a unit: `500ms`, `2s`.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// The key, as it was written.
    pub key: String,
    /// The expression, as it was written.
    pub expression: String,
    /// True if crossing it ends the run.
    pub abort_on_fail: bool,
    /// The time after the beginning at which it may do so first.
    pub delay_abort_eval: Duration,
    metric: String,
    tags: Vec<(String, String)>,
    aggregation: Aggregation,
    operator: Operator,
    bound: f64,
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
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    Different,
}

/// A threshold that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("threshold \"{threshold}\": {problem}")]
pub struct ThresholdError {
    /// The text that was written.
    pub threshold: String,
    /// The problem with it.
    pub problem: ThresholdProblem,
}

impl Threshold {
    /// For a run that takes so much of the time it was written for: a count that
    /// must be reached is that much smaller, and what is waited for comes earlier.
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

    /// True if nobody asked for it: every run by rate has it.
    pub(crate) fn is_built_in(&self) -> bool {
        self.built_in
    }

    /// The metric's name.
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// The tags that its series must have.
    pub fn tags(&self) -> &[(String, String)] {
        &self.tags
    }
}

/// The result of a threshold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThresholdResult {
    /// `metric` or `metric{tag:value}`.
    pub metric: String,
    /// `p(95)<500`
    pub expression: String,
    /// The value measured, in the expression's unit: milliseconds for durations.
    /// `None` without samples.
    pub observed: Option<f64>,
    /// The number of samples.
    pub samples: u64,
    /// True if it holds.
    pub passed: bool,
    /// True if it ended the run.
    pub aborted: bool,
    /// True if nobody asked for it: every run by rate has it.
    pub built_in: bool,
    /// The reason why it does not hold, where that is not plain from the figures.
    pub reason: Option<String>,
}
