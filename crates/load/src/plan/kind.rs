//! Kinds of scenarios, which the engine is told about.

use std::fmt;
use std::sync::Arc;

use lucarne_settings::{Node, Report};

use crate::threshold::Threshold;
use crate::{PrepareError, Scenario};

/// Makes a scenario of its options; the number is where its randomness begins.
pub type Build = Box<dyn Fn(u64) -> Result<Arc<dyn Scenario>, PrepareError> + Send + Sync>;

/// Reads options: the node (with line, also where nothing is written) and
/// where it stands.
type Read = Box<dyn Fn(&Node, &str, &mut Report) -> Option<Build> + Send + Sync>;

/// A kind of scenario, and how its options are read.
pub struct Kind {
    /// The name by which a plan calls it.
    pub name: &'static str,
    /// Its purpose, in a line.
    pub about: &'static str,
    /// The thresholds that must hold of it, unless something else is said of their metrics.
    pub demands: &'static [&'static str],
    read: Read,
}

impl Kind {
    /// A kind. `read` takes the node under `options`, whose path is given for
    /// messages, and reports everything that is wrong with it.
    pub fn new(
        name: &'static str,
        about: &'static str,
        read: impl Fn(&Node, &str, &mut Report) -> Option<Build> + Send + Sync + 'static,
    ) -> Self {
        Kind {
            name,
            about,
            demands: &[],
            read: Box::new(read),
        }
    }

    /// The same, with these thresholds (`metric: expression`).
    #[must_use]
    pub fn demanding(self, demands: &'static [&'static str]) -> Self {
        Kind { demands, ..self }
    }

    /// Its demands as thresholds.
    pub fn thresholds(&self) -> Vec<Threshold> {
        let read = self.demands.iter().map(|line| Threshold::parse(line));
        read.filter_map(Result::ok).collect()
    }

    /// Reads the options in `node`, which stands at `path`.
    pub fn read(&self, node: &Node, path: &str, report: &mut Report) -> Option<Build> {
        (self.read)(node, path, report)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kind").field(&self.name).finish()
    }
}
