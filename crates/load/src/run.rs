//! A run from its beginning to its outcome.

mod thresholds;

pub(crate) use thresholds::MAY_BE_ALLOWED;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use lucarne_settings::nearest;
use tokio::sync::watch;

use crate::controls::Controls;
use crate::excuse::Excuses;
use crate::execution::run_state::{RunState, StopReason};
use crate::execution::scenario_state::{ScenarioState, StopMode};
use crate::execution::{Execution, RunOptions};
use crate::outcome::Outcome;
use crate::part::Part;
use crate::scenario_config::ScenarioConfig;
use crate::snapshot::Snapshot;
use crate::summary::Summary;
use crate::tags::TagRegistry;
use crate::threshold::{ThresholdError, Thresholds};
use crate::verdict::Verdict;

/// A run before it starts.
pub struct Run {
    /// Name of the plan.
    pub name: String,
    /// Description of the plan.
    pub description: String,
    /// Command line, for reports.
    pub command: Vec<String>,
    /// Version of the program, for reports.
    pub version: String,
    /// Scenarios, which run concurrently, each from its start.
    pub scenarios: Vec<ScenarioConfig>,
    /// Thresholds of the run.
    pub thresholds: Thresholds,
    /// Names of checks and of default thresholds whose failures are permitted.
    pub allow: Vec<String>,
    /// Number of threads that execute iterations.
    pub workers: usize,
    /// Whether each [`Snapshot`] contains all samples as text.
    pub exposed: bool,
    /// Whether each [`Snapshot`] contains a summary.
    pub summarised: bool,
    /// Part of the load that this process offers.
    pub part: Part,
    /// Time of the first arrival, which may become known after everything is prepared. Without the
    /// receiver, the load starts when everything is prepared.
    pub start_at: Option<watch::Receiver<Option<SystemTime>>>,
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
            allow: Vec::new(),
            workers: 1,
            exposed: false,
            summarised: false,
            part: Part::WHOLE,
            start_at: None,
        }
    }
}

impl Run {
    /// Checks that each threshold is on a metric of its scenarios, with an aggregation that the
    /// metric has. Otherwise, the threshold would only fail at the end of the run.
    ///
    /// # Errors
    /// The first threshold that cannot be evaluated.
    pub fn check_thresholds(&self) -> Result<(), ThresholdError> {
        let scenarios = self.scenarios.iter();
        let scenarios: Vec<_> = scenarios
            .map(|planned| (planned.name.as_str(), planned.scenario.metrics()))
            .collect();
        for threshold in &self.thresholds.0 {
            let checked = threshold.is_for(&scenarios);
            checked.map_err(|problem| threshold.error(problem))?;
        }
        Ok(())
    }

    /// Checks that each name in `allow` is a check of a scenario, or a default threshold. A
    /// scenario that does not list its checks may have any check.
    ///
    /// # Errors
    /// The first unknown name.
    pub fn check_allowed(&self) -> Result<(), UnknownCheck> {
        let mut names = Vec::new();
        for planned in &self.scenarios {
            match planned.scenario.checks() {
                Some(checks) => names.extend(checks),
                None => return Ok(()),
            }
        }
        names.sort_unstable();
        names.dedup();
        let all = [names.as_slice(), &MAY_BE_ALLOWED].concat();
        match self.allow.iter().find(|name| !all.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(UnknownCheck {
                name: name.clone(),
                near: nearest(name, &all).map(str::to_owned),
                known: names.join(", "),
            }),
        }
    }

    /// Starts the run on its own threads: prepares the scenarios, then starts the arrivals. The
    /// caller needs no tokio runtime.
    pub fn start(self) -> Running {
        let registry = Arc::new(TagRegistry::default());
        let thresholds = thresholds::complete(self.thresholds.0, &self.scenarios, &self.allow);
        let scenarios = self.scenarios.into_iter().map(|plan| {
            let base = registry.base(&plan.name, &plan.tags);
            let excuses = Excuses::of(
                &plan.name,
                plan.scenario.warnings(),
                &self.allow,
                &thresholds,
            );
            plan.scenario.divide(self.part);
            Arc::new(ScenarioState::new(plan, base, excuses, self.part))
        });
        let run_state = Arc::new(RunState::new(scenarios.collect()));
        let (snapshots, seen) = watch::channel(Arc::new(Snapshot::default()));
        let options = RunOptions {
            name: self.name,
            description: self.description,
            command: self.command,
            version: self.version,
            thresholds,
            allow: self.allow,
            workers: self.workers,
            exposed: self.exposed,
            summarised: self.summarised,
            part: self.part,
            start_at: self.start_at,
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

/// A check in `--allow` that no scenario of the run has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--allow \"{name}\": no scenario has this check{}", advice(.near.as_deref(), .known))]
pub struct UnknownCheck {
    /// Name in `--allow`.
    pub name: String,
    /// Most similar check of the run.
    pub near: Option<String>,
    /// All checks of the run.
    pub known: String,
}

fn advice(near: Option<&str>, known: &str) -> String {
    let did_you_mean = near.map(|near| format!("; did you mean `{near}`?"));
    match (did_you_mean, known) {
        (_, "") => "; the run has no checks".to_owned(),
        (Some(question), _) => format!("{question} The checks are {known}"),
        (None, _) => format!("; the checks are {known}"),
    }
}

/// A run in progress. Dropping this value does not end the run.
pub struct Running {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    run_state: Arc<RunState>,
    thread: JoinHandle<Outcome>,
}

impl Running {
    /// Returns the state of the run at the last full second.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshots.borrow().clone()
    }

    /// Returns a receiver of a snapshot per second; closed at the end of the run.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }

    /// Returns controls that change the load during the run.
    pub fn controls(&self) -> Controls {
        Controls::of(self.run_state.clone())
    }

    /// Stops the run: no further iterations begin, and running iterations have their
    /// `gracefulStop`. A second call, or a call after the load, cuts everything off, including
    /// `finish`.
    pub fn stop(&self) {
        let stop = if self.run_state.is_stopping() || self.run_state.is_finishing() {
            StopMode::Now
        } else {
            StopMode::Gracefully
        };
        self.run_state.stop(stop, StopReason::Asked);
    }

    /// Stops the run, and cuts off running iterations.
    pub fn stop_at_once(&self) {
        self.run_state.stop(StopMode::Now, StopReason::Asked);
    }

    /// Ends the load early, as a crossed threshold with `abortOnFail` does.
    pub fn abort(&self) {
        self.run_state
            .stop(StopMode::Gracefully, StopReason::Threshold);
    }

    /// Returns whether [`wait`](Running::wait) would return at once.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Blocks until the run ends.
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
