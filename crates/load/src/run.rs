//! A run, from its beginning to its outcome.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::execution::Execution;
use crate::execution::scenario_state::{ScenarioState, StopMode};
use crate::tags::Registry;
use crate::threshold::{Threshold, Thresholds};
use crate::{ExecutorConfig, Scenario, Snapshot, Summary, Verdict};

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
    pub scenarios: Vec<ScenarioConfig>,
    /// What the run must keep to.
    pub thresholds: Thresholds,
    /// Threads that carry out iterations.
    pub workers: usize,
}

/// One scenario of a run.
pub struct ScenarioConfig {
    /// Its name in the plan; the value of the tag `scenario`.
    pub name: String,
    /// What is done: the registered name of the scenario.
    pub kind: String,
    /// When iterations begin.
    pub executor: ExecutorConfig,
    /// How long after the run's begin.
    pub start: Duration,
    /// How long iterations that run at the end are waited for.
    pub graceful_stop: Duration,
    /// Tags that all its samples have.
    pub tags: Vec<(String, String)>,
    /// What is done.
    pub scenario: Arc<dyn Scenario>,
}

impl ScenarioConfig {
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
        let registry = Arc::new(Registry::default());
        let scenarios = self.scenarios.into_iter().map(|plan| {
            let base = registry.base(&plan.name, &plan.tags);
            Arc::new(ScenarioState::new(plan, base))
        });
        let run_state = Arc::new(RunState {
            scenarios: scenarios.collect(),
            stop: watch::Sender::new(StopMode::No),
            reason: Mutex::new(None),
        });
        let (snapshots, seen) = watch::channel(Arc::new(Snapshot::default()));
        let options = RunOptions {
            name: self.name,
            description: self.description,
            command: self.command,
            version: self.version,
            thresholds: self.thresholds.0,
            workers: self.workers,
        };
        let execution = Execution {
            options,
            run_state: run_state.clone(),
            registry,
            snapshots,
        };
        let thread = std::thread::spawn(move || execution.run());
        Running {
            snapshots: seen,
            run_state,
            thread,
        }
    }
}

/// What a run is to keep to and to report, besides its scenarios.
pub(crate) struct RunOptions {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) command: Vec<String>,
    pub(crate) version: String,
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) workers: usize,
}

/// What steers a run from outside of its workers.
pub(crate) struct RunState {
    pub(crate) scenarios: Vec<Arc<ScenarioState>>,
    stop: watch::Sender<StopMode>,
    reason: Mutex<Option<StopReason>>,
}

/// Why a run ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// Somebody asked for it.
    Asked,
    /// A threshold did.
    Threshold,
    /// A scenario has reached its goal.
    Goal,
}

impl RunState {
    pub(crate) fn stop(&self, stop: StopMode, reason: StopReason) {
        self.reason.lock().get_or_insert(reason);
        self.stop.send_modify(|known| *known = (*known).max(stop));
        self.scenarios.iter().for_each(|state| state.stop(stop));
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow() > StopMode::No
    }

    /// Why the run ends before its time, if it does.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        *self.reason.lock()
    }

    /// Waits until the run is to be stopped at least like this.
    pub(crate) async fn stopped(&self, least: StopMode) {
        // The sender is our own: there is no error.
        let _ = self.stop.subscribe().wait_for(|stop| *stop >= least).await;
    }
}

/// A run under way. Dropping it does not end it.
pub struct Running {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    run_state: Arc<RunState>,
    thread: JoinHandle<Outcome>,
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
        Controls(Some(self.run_state.clone()))
    }

    /// No more iterations begin; those that run have their `gracefulStop`. Said
    /// again: they are cut off, and so is `finish`.
    pub fn stop(&self) {
        let stop = if self.run_state.is_stopping() {
            StopMode::Now
        } else {
            StopMode::Gracefully
        };
        self.run_state.stop(stop, StopReason::Asked);
    }

    /// Whether [`wait`](Running::wait) would return at once.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Blocks until the run is over.
    pub fn wait(self) -> Outcome {
        self.thread.join().unwrap_or_else(|_| {
            let error = "the load generator itself panicked".to_string();
            Outcome {
                summary: Summary::default(),
                verdict: Verdict::Configuration,
                error: Some(error),
            }
        })
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
/// The default changes nothing.
#[derive(Clone, Default)]
pub struct Controls(Option<Arc<RunState>>);

/// What there is to be changed about a scenario.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Control {
    /// The scenario.
    pub scenario: String,
    /// What it does.
    pub kind: String,
    /// What is changed.
    pub adjustable: Adjustable,
    /// Iterations per second, or users, asked for now.
    pub asked: f64,
    /// What the plan's own figure is multiplied with.
    pub factor: f64,
}

/// What is changed about a scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Adjustable {
    /// Its arrival rate.
    #[default]
    Rate,
    /// The number of its users.
    Vus,
}

impl Controls {
    /// What there is to be changed, in the plan's order.
    pub fn list(&self) -> Vec<Control> {
        self.0
            .iter()
            .flat_map(|run_state| run_state.scenarios.iter())
            .map(|state| state.control())
            .collect()
    }

    /// Multiplies what scenario `index` is asked for from now on with `factor`.
    pub fn scale(&self, index: usize, factor: f64) {
        if let Some(state) = self.state(index) {
            state.scale(|now| now * factor);
        }
    }

    /// Sets what scenario `index` is asked for now: iterations per second, or
    /// users. A ramp keeps its shape. Without effect where the plan asks for nothing.
    pub fn set(&self, index: usize, value: f64) {
        if let Some(state) = self.state(index) {
            let planned = state.planned_now();
            state.scale(|now| if planned > 0.0 { value / planned } else { now });
        }
    }

    fn state(&self, index: usize) -> Option<&ScenarioState> {
        self.0.as_ref()?.scenarios.get(index).map(|state| &**state)
    }
}

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}
