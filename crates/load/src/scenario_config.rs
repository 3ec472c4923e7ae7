//! A scenario of a run, with the executor that drives it.

use std::sync::Arc;
use std::time::Duration;

use crate::executor::ExecutorConfig;
use crate::scenario::Scenario;
use crate::threshold::Threshold;

/// One scenario of a run.
pub struct ScenarioConfig {
    /// Its name in the plan; the value of the tag `scenario`.
    pub name: String,
    /// The registered name of the scenario.
    pub kind: String,
    /// The executor: when iterations begin.
    pub executor: ExecutorConfig,
    /// The time from the run's begin to its own.
    pub start: Duration,
    /// The time for which iterations that run at the end are waited for.
    pub graceful_stop: Duration,
    /// Tags that all its samples have.
    pub tags: Vec<(String, String)>,
    /// Thresholds without tags that must hold of it, unless the run says something else of
    /// their metrics.
    pub demands: Vec<Threshold>,
    /// The work that is done.
    pub scenario: Arc<dyn Scenario>,
}

impl ScenarioConfig {
    /// The time that iterations may still take after the end, if nothing is said.
    pub const GRACEFUL_STOP: Duration = Duration::from_secs(30);

    /// A scenario that starts at once, with k6's `gracefulStop` of 30 s and no tags.
    pub fn new(
        name: impl Into<String>,
        executor: ExecutorConfig,
        scenario: Arc<dyn Scenario>,
    ) -> Self {
        ScenarioConfig {
            name: name.into(),
            kind: String::new(),
            executor,
            start: Duration::ZERO,
            graceful_stop: ScenarioConfig::GRACEFUL_STOP,
            tags: Vec::new(),
            demands: Vec::new(),
            scenario,
        }
    }
}
