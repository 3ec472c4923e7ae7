//! Verdict on a run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Verdict on a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole load was offered, and every threshold passed.
    #[default]
    Passed,
    /// The run finished, and there were no thresholds besides built-in thresholds.
    Unjudged,
    /// A threshold was crossed or had no samples, a check failed before the run, or the work after
    /// the load failed.
    Crossed,
    /// The configuration of the run is invalid, or the load generator failed outside its workers.
    Configuration,
    /// The run was stopped before its end, or a worker of the load generator failed.
    Interrupted,
    /// The target was unreachable before the run, or no request received a response.
    Unreachable,
    /// The run finished, but a report could not be written.
    OutputFailed,
}

impl Verdict {
    /// Returns the exit code of the process. 99 and 105 are k6's; only 0 means success.
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Passed | Verdict::Unjudged => 0,
            Verdict::Crossed => 99,
            Verdict::Configuration => 104,
            Verdict::Interrupted => 105,
            Verdict::Unreachable => 110,
            Verdict::OutputFailed => 111,
        }
    }

    /// Returns the more severe of two verdicts: a merged run has passed only if every part has
    /// passed.
    pub fn worse(self, other: Verdict) -> Verdict {
        if other.weight() > self.weight() {
            other
        } else {
            self
        }
    }

    fn weight(self) -> u8 {
        match self {
            Verdict::Passed => 0,
            Verdict::Unjudged => 1,
            Verdict::OutputFailed => 2,
            Verdict::Crossed => 3,
            Verdict::Interrupted => 4,
            Verdict::Unreachable => 5,
            Verdict::Configuration => 6,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Passed => "passed",
            Verdict::Unjudged => "no thresholds, nothing was judged",
            Verdict::Crossed => "thresholds crossed",
            Verdict::Configuration => "wrong configuration",
            Verdict::Interrupted => "interrupted",
            Verdict::Unreachable => "target never reached",
            Verdict::OutputFailed => "report not written",
        })
    }
}
