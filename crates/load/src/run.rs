//! A run, from its beginning to its outcome.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::threshold::Thresholds;
use crate::{Arrivals, Scenario, Snapshot, Summary, Verdict};

/// What to run.
pub struct Run {
    /// The plan's name.
    pub name: String,
    /// The plan's description.
    pub description: String,
    /// The command line, for the reports.
    pub command: Vec<String>,
    /// The version of the program, for the reports.
    pub version: String,
    /// All of them run at the same time, each from its start.
    pub scenarios: Vec<Planned>,
    /// What the run must keep to.
    pub thresholds: Thresholds,
    /// Threads that carry out iterations.
    pub workers: usize,
}

/// One scenario of a run.
pub struct Planned {
    /// Its name in the plan; the value of the tag `scenario`.
    pub name: String,
    /// What is done: the registered name of the scenario.
    pub kind: String,
    /// When iterations begin.
    pub arrivals: Arrivals,
    /// How long after the run's begin.
    pub start: Duration,
    /// How long iterations that run at the end are waited for.
    pub graceful_stop: Duration,
    /// Tags that all its samples have.
    pub tags: Vec<(String, String)>,
    /// What is done.
    pub scenario: Arc<dyn Scenario>,
}

impl Planned {
    /// A scenario that starts at once, with k6's `gracefulStop` of 30 s and no tags.
    pub fn new(name: impl Into<String>, arrivals: Arrivals, scenario: Arc<dyn Scenario>) -> Self {
        Planned {
            name: name.into(),
            kind: String::new(),
            arrivals,
            start: Duration::ZERO,
            graceful_stop: Duration::from_secs(30),
            tags: Vec::new(),
            scenario,
        }
    }
}

impl Default for Run {
    fn default() -> Self {
        Run {
            name: String::new(),
            description: String::new(),
            command: Vec::new(),
            version: String::new(),
            scenarios: Vec::new(),
            thresholds: Thresholds::default(),
            workers: 1,
        }
    }
}

impl Run {
    /// Begins: prepares the scenarios, then starts the arrivals. Needs no runtime.
    pub fn start(self) -> Running {
        let (_, snapshots) = watch::channel(Arc::new(Snapshot::default()));
        Running { snapshots }
    }
}

/// A run under way. Dropping it does not end it.
pub struct Running {
    snapshots: watch::Receiver<Arc<Snapshot>>,
}

impl Running {
    /// The run as it was at the last full second.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshots.borrow().clone()
    }

    /// A new snapshot each second; closed when the run is over.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// What changes the load while it runs.
    pub fn controls(&self) -> Controls {
        Controls {}
    }

    /// No more iterations begin; those that run have their `gracefulStop`. Said
    /// again: they are cut off, and `finish` too.
    pub fn stop(&self) {}

    /// Whether [`wait`](Running::wait) would return at once.
    pub fn is_over(&self) -> bool {
        true
    }

    /// Blocks until the run is over.
    pub fn wait(self) -> Outcome {
        Outcome {
            summary: Summary::default(),
            verdict: Verdict::Passed,
            error: None,
        }
    }
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All figures.
    pub summary: Summary,
    /// What it comes to.
    pub verdict: Verdict,
    /// Why the run could not begin.
    pub error: Option<String>,
}

/// Changes the load while it runs. Clones change the same run.
#[derive(Debug, Clone, Default)]
pub struct Controls {}

/// What there is to be changed about a scenario.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Control {
    /// The scenario.
    pub scenario: String,
    /// What it does.
    pub kind: String,
    /// What is changed.
    pub dial: Dial,
    /// Iterations per second, or users, asked for now.
    pub asked: f64,
    /// What the plan's own figure is multiplied with.
    pub factor: f64,
}

/// What is changed about a scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dial {
    /// Its arrival rate.
    #[default]
    Rate,
    /// The number of its users.
    Users,
}

impl Controls {
    /// What there is to be changed, in the plan's order.
    pub fn list(&self) -> Vec<Control> {
        Vec::new()
    }

    /// Multiplies what scenario `index` is asked for now with `factor`.
    pub fn scale(&self, index: usize, factor: f64) {
        let _ = (index, factor);
    }

    /// Sets what scenario `index` is asked for now: iterations per second, or users.
    pub fn set(&self, index: usize, value: f64) {
        let _ = (index, value);
    }
}
