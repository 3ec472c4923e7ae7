//! Outcome of a run.

use crate::summary::Summary;
use crate::verdict::Verdict;

/// Outcome of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Results of the run, the source of all reports.
    pub summary: Summary,
    /// Verdict on the run.
    pub verdict: Verdict,
    /// Reason why the run could not begin.
    pub error: Option<String>,
}
