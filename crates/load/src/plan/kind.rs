//! Kinds of scenarios that are registered with the engine.

use std::fmt;
use std::sync::Arc;

use lucarne_settings::{Node, Report};

use crate::threshold::Threshold;
use crate::{PrepareError, Scenario};

/// Creates a scenario from its options; the number is the seed of its random choices.
pub type Build = Box<dyn Fn(u64) -> Result<Arc<dyn Scenario>, PrepareError> + Send + Sync>;

/// Parses options from a node and its path. The node has a line even if the plan has no options.
type Read = Box<dyn Fn(&Node, &str, &mut Report) -> Option<Build> + Send + Sync>;

/// A kind of scenario, and the parser of its options.
pub struct Kind {
    /// Name of the kind in plans.
    pub name: &'static str,
    /// Default thresholds, unless the plan has other thresholds for the same metrics.
    pub demands: &'static [&'static str],
    read: Read,
}

impl Kind {
    /// Creates a kind. `read` receives the node under `options` with its path for messages, and
    /// reports all errors.
    pub fn new(
        name: &'static str,
        read: impl Fn(&Node, &str, &mut Report) -> Option<Build> + Send + Sync + 'static,
    ) -> Self {
        Kind {
            name,
            demands: &[],
            read: Box::new(read),
        }
    }

    /// Sets the default thresholds (`metric: expression`).
    #[must_use]
    pub fn demanding(self, demands: &'static [&'static str]) -> Self {
        Kind { demands, ..self }
    }

    /// Returns the default thresholds.
    pub fn thresholds(&self) -> Vec<Threshold> {
        let read = self.demands.iter().map(|line| Threshold::parse(line));
        read.filter_map(Result::ok).collect()
    }

    /// Parses the options in `node` at `path`.
    pub fn read(&self, node: &Node, path: &str, report: &mut Report) -> Option<Build> {
        (self.read)(node, path, report)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.name).finish()
    }
}
