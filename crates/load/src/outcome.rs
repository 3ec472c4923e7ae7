//! The outcome of a run.

use crate::summary::Summary;
use crate::verdict::Verdict;

/// The outcome of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All figures.
    pub summary: Summary,
    /// The verdict on it.
    pub verdict: Verdict,
    /// The reason why the run could not begin.
    pub error: Option<String>,
}
