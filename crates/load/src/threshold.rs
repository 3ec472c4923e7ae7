//! What a run must keep to, in k6's grammar.

use std::time::Duration;

/// What a run must keep to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thresholds(pub Vec<Threshold>);

/// One threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// `metric` or `metric{tag:value}`, as it was written.
    pub key: String,
    /// `p(95)<500`, as it was written.
    pub expression: String,
    /// Whether crossing it ends the run.
    pub abort_on_fail: bool,
    /// How long it is not looked at before that.
    pub delay_abort_eval: Duration,
}

/// A threshold that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("threshold \"{threshold}\": {problem}")]
pub struct ThresholdError {
    /// What was written.
    pub threshold: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Threshold {
    /// Reads `metric{tag:value}` and `p(95)<500`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with either.
    pub fn new(key: &str, expression: &str) -> Result<Self, ThresholdError> {
        Ok(Threshold {
            key: key.trim().into(),
            expression: expression.trim().into(),
            abort_on_fail: false,
            delay_abort_eval: Duration::ZERO,
        })
    }

    /// Reads the one-line form of the command line: `metric{tag:value}: p(95)<500`.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub fn parse(line: &str) -> Result<Self, ThresholdError> {
        let (key, expression) = line.rsplit_once(':').unwrap_or((line, ""));
        Threshold::new(key, expression)
    }
}
