//! A scenario of a run with its executor.

use std::sync::Arc;
use std::time::Duration;

use crate::executor::ExecutorConfig;
use crate::scenario::Scenario;
use crate::threshold::Threshold;

/// A scenario of a run.
pub struct ScenarioConfig {
    /// Name in the plan, which is the value of the tag `scenario`.
    pub name: String,
    /// Registered name of the scenario's kind.
    pub kind: String,
    /// Executor of the iterations.
    pub executor: ExecutorConfig,
    /// Time from the start of the run to the start of the scenario.
    pub start: Duration,
    /// Time to wait for running iterations at the end.
    pub graceful_stop: Duration,
    /// Tags of all samples.
    pub tags: Vec<(String, String)>,
    /// Default thresholds without tags, unless the run has other thresholds for the same metrics.
    pub demands: Vec<Threshold>,
    /// Seed of random arrivals.
    pub seed: u64,
    /// Work of an iteration.
    pub scenario: Arc<dyn Scenario>,
}

impl ScenarioConfig {
    /// Default time for iterations to finish after the end.
    pub const GRACEFUL_STOP: Duration = Duration::from_secs(30);

    /// Creates a scenario that starts at once, with k6's `gracefulStop` of 30 s and no tags.
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
            seed: 0,
            scenario,
        }
    }
}
