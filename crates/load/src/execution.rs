//! Execution of a run: prepare, load, finish, summarize.

mod arrival_rate;
mod collecting;
mod collector;
mod drain;
mod finish;
mod interval;
mod outcomes;
pub(crate) mod run_state;
pub(crate) mod scenario_state;
mod silence;
mod summarise;
mod vu;
mod vus;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::environment::process_cpu;
use crate::executor::ExecutorError;
use crate::outcome::Outcome;
use crate::part::Part;
use crate::recorder::Recorder;
use crate::samples::SampleBuffer;
use crate::scenario::PrepareError;
use crate::snapshot::{Phase, ScenarioRow, Snapshot};
use crate::stop::Stop;
use crate::tags::TagRegistry;
use crate::threshold::Threshold;
use crate::verdict::Verdict;
use collector::planned;
use run_state::{RunState, StopReason};
use scenario_state::{ScenarioState, StopMode};
use summarise::RunTimes;
use worker::Worker;

/// Time from the last preparation to the first arrival.
const LEAD: Duration = Duration::from_millis(10);

/// Execution of a run on a thread of its own, like k6's scheduler.
pub(crate) struct Execution {
    pub(crate) options: RunOptions,
    pub(crate) run_state: Arc<RunState>,
    pub(crate) registry: Arc<TagRegistry>,
    pub(crate) snapshots: watch::Sender<Arc<Snapshot>>,
}

/// Options of a run besides its scenarios: thresholds, permitted failures, and texts for reports.
pub(crate) struct RunOptions {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) command: Vec<String>,
    pub(crate) version: String,
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) allow: Vec<String>,
    pub(crate) workers: usize,
    pub(crate) exposed: bool,
    pub(crate) part: Part,
    pub(crate) summarised: bool,
    pub(crate) start_at: Option<watch::Receiver<Option<SystemTime>>>,
}

/// Reasons why the run cannot begin.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("the run has no scenarios: add a scenario")]
    Nothing,
    #[error("scenario \"{scenario}\": {source}")]
    Executor {
        scenario: String,
        source: ExecutorError,
    },
    #[error("two scenarios have the name \"{0}\": rename one of them")]
    Twice(String),
}

impl Execution {
    pub(crate) fn run(self) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let result = match runtime {
            Ok(runtime) => {
                let result = runtime.block_on(self.perform());
                // Do not wait for DNS queries that are still running.
                runtime.shutdown_background();
                result
            }
            Err(error) => Err(self.refused(Verdict::Configuration, broken(&error))),
        };
        match result {
            Ok(outcome) | Err(outcome) => outcome,
        }
    }

    async fn perform(&self) -> Result<Outcome, Outcome> {
        self.check()
            .map_err(|error| self.refused(Verdict::Configuration, error.to_string()))?;
        self.announce(Phase::Preparing);
        self.prepare().await?;
        let shard = Arc::new(SampleBuffer::default());
        self.set_up(&shard).await?;
        let workers = match self.workers() {
            Ok(workers) => workers,
            Err(error) => {
                let outcome = self.refused(Verdict::Configuration, broken(&error));
                return Err(self.torn_down(outcome, &shard).await);
            }
        };
        let (begin, started) = match self.start().await {
            Ok(start) => start,
            Err(outcome) => return Err(self.torn_down(outcome, &shard).await),
        };
        let started = started
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64);
        let mut times = RunTimes {
            begin,
            started,
            end: begin,
            cpu_before: process_cpu(),
            process_cpu: Duration::ZERO,
        };
        for state in &self.run_state.scenarios {
            let _ = state.begin.set(begin + state.config.start);
        }
        workers.0.iter().for_each(|worker| worker.begin(begin));
        let collecting = self.collect(times, workers.1, &shard);
        let (stopper, stop) = Stop::new();
        let beside = self.background(&shard, stop);
        let goals = self.goals();
        let broken = wait(workers.0).await;
        drop(goals);
        self.late_failures().await;
        times.end_now();
        collecting.say(Phase::Finishing);
        self.run_state.begin_finishing();
        stopper.stop();
        let mut finish = self.finish(beside, &shard).await;
        let not_torn_down = self.tear_down(&shard).await;
        finish.failed |= not_torn_down.is_some();
        finish.notes.extend(not_torn_down);
        Ok(self.sum_up(collecting.over(), &times, finish, broken))
    }

    /// Waits until shortly before the start of the load, and returns its time.
    async fn start(&self) -> Result<(Instant, SystemTime), Outcome> {
        let Some(mut start) = self.options.start_at.clone() else {
            return Ok((Instant::now() + LEAD, SystemTime::now() + LEAD));
        };
        // An order of a leader can arrive late: the load then starts at once.
        let is_order = start.borrow().is_none();
        self.announce(Phase::Waiting);
        let stopped = || self.stopped_early("stopped before its start");
        let known = tokio::select! {
            known = start.wait_for(Option::is_some) => known.ok().and_then(|known| *known),
            () = self.run_state.stopped(StopMode::Gracefully) => None,
        };
        let (start, now) = (known.ok_or_else(stopped)?, SystemTime::now());
        let (start, wait) = match start.duration_since(now) {
            Ok(wait) => (start, wait),
            Err(_) if is_order => (now, Duration::ZERO),
            Err(_) => {
                let late = "--start-at: the preparation ended after this time: choose a later time";
                return Err(self.refused(Verdict::Configuration, late.into()));
            }
        };
        let begin = Instant::now() + wait;
        tokio::select! {
            () = tokio::time::sleep(wait.saturating_sub(LEAD)) => Ok((begin, start)),
            () = self.run_state.stopped(StopMode::Gracefully) => Err(stopped()),
        }
    }

    /// Returns the outcome of a run that was stopped before the load.
    fn stopped_early(&self, error: &str) -> Outcome {
        // The leader of several agents aborts them if one of them is lost.
        let verdict = match self.run_state.reason() {
            Some(StopReason::Threshold) => Verdict::Crossed,
            _ => Verdict::Interrupted,
        };
        self.refused(verdict, error.into())
    }

    /// Checks that there are scenarios, with valid executors and different names.
    fn check(&self) -> Result<(), RunError> {
        let scenarios = &self.run_state.scenarios;
        if scenarios.is_empty() {
            return Err(RunError::Nothing);
        }
        for (index, state) in scenarios.iter().enumerate() {
            let name = &state.config.name;
            let refused = |source| RunError::Executor {
                scenario: name.clone(),
                source,
            };
            state.config.executor.check().map_err(refused)?;
            let before = &scenarios[..index];
            if before.iter().any(|other| other.config.name == *name) {
                return Err(RunError::Twice(name.clone()));
            }
        }
        Ok(())
    }

    /// Prepares all scenarios.
    async fn prepare(&self) -> Result<(), Outcome> {
        let prepare = |state: Arc<ScenarioState>| async move {
            let prepared = state.config.scenario.prepare().await;
            (state, prepared)
        };
        self.before_load(prepare).await
    }

    /// Sets up all scenarios. If one of them fails, the others are torn down.
    async fn set_up(&self, shard: &Arc<SampleBuffer>) -> Result<(), Outcome> {
        let set_up = |state: Arc<ScenarioState>| {
            let recorder = self.recorder(&state, shard);
            async move {
                let result = state.config.scenario.set_up(recorder).await;
                state.is_set_up.store(result.is_ok(), Relaxed);
                (state, result)
            }
        };
        match self.before_load(set_up).await {
            Err(outcome) => Err(self.torn_down(outcome, shard).await),
            Ok(()) => Ok(()),
        }
    }

    /// Tears down the scenarios of a run that did not begin.
    async fn torn_down(&self, mut outcome: Outcome, shard: &Arc<SampleBuffer>) -> Outcome {
        outcome.summary.notes.extend(self.tear_down(shard).await);
        outcome
    }

    /// Performs a step before the load with all scenarios concurrently.
    async fn before_load<F>(&self, step: impl Fn(Arc<ScenarioState>) -> F) -> Result<(), Outcome>
    where
        F: Future<Output = (Arc<ScenarioState>, Result<(), PrepareError>)> + Send + 'static,
    {
        let mut preparing = JoinSet::new();
        for state in &self.run_state.scenarios {
            preparing.spawn(step(state.clone()));
        }
        loop {
            let prepared = tokio::select! {
                prepared = preparing.join_next() => prepared,
                () = self.run_state.stopped(StopMode::Gracefully) => {
                    return Err(self.stopped_early("stopped while preparing"));
                }
            };
            let (state, result) = match prepared {
                None => return Ok(()),
                Some(Ok(prepared)) => prepared,
                Some(Err(panic)) => {
                    return Err(self.refused(Verdict::Configuration, broken(&panic)));
                }
            };
            if let Err(error) = result {
                let said = self.of_scenario(&state.config.name, &error);
                return Err(match error {
                    PrepareError::Configuration(_) => self.refused(Verdict::Configuration, said),
                    PrepareError::Unreachable(_) => self.refused(Verdict::Unreachable, said),
                    PrepareError::Faulty { check, detail } => {
                        self.faulty(&state, check, detail, said)
                    }
                });
            }
        }
    }

    /// Starts the worker threads, which wait for the start time.
    fn workers(&self) -> io::Result<(Vec<Worker>, Vec<Arc<SampleBuffer>>)> {
        let count = self.options.workers.max(1) as u64;
        let (mut workers, mut shards) = (Vec::new(), Vec::new());
        for number in 0..count {
            let shard = Arc::new(SampleBuffer::default());
            let recorders = self
                .run_state
                .scenarios
                .iter()
                .map(|state| self.recorder(state, &shard))
                .collect();
            workers.push(Worker::new(
                self.run_state.scenarios.clone(),
                recorders,
                self.options.part.of_worker(number, count),
            )?);
            shards.push(shard);
        }
        Ok((workers, shards))
    }

    fn recorder(&self, state: &ScenarioState, shard: &Arc<SampleBuffer>) -> Recorder {
        let excuses = state.excuses.clone();
        Recorder::new(shard.clone(), self.registry.clone(), state.base, excuses)
    }

    /// Starts the background tasks of the scenarios.
    fn background(&self, shard: &Arc<SampleBuffer>, stop: Stop) -> JoinSet<()> {
        let mut beside = JoinSet::new();
        for state in &self.run_state.scenarios {
            let (recorder, stop) = (self.recorder(state, shard), stop.clone());
            let scenario = state.config.scenario.clone();
            beside.spawn(async move { scenario.background(recorder, stop).await });
        }
        beside
    }

    /// Starts tasks that end the run when a scenario has reached its goal.
    fn goals(&self) -> JoinSet<()> {
        let mut goals = JoinSet::new();
        for state in &self.run_state.scenarios {
            let (scenario, run_state) = (state.config.scenario.clone(), self.run_state.clone());
            goals.spawn(async move {
                match scenario.reached().await {
                    Ok(()) => run_state.stop(StopMode::Gracefully, StopReason::Goal),
                    Err(failure) => run_state.give_up(failure),
                }
            });
        }
        goals
    }

    /// Records failures of scenarios at the end of the load, when the tasks of
    /// [`goals`](Self::goals) may not have run any more.
    async fn late_failures(&self) {
        for state in &self.run_state.scenarios {
            let reached = tokio::task::unconstrained(state.config.scenario.reached());
            tokio::select! {
                biased;
                Err(failure) = reached => self.run_state.give_up(failure),
                () = std::future::ready(()) => {}
            }
        }
    }

    /// Announces a phase before the load.
    fn announce(&self, phase: Phase) {
        let rows = self.run_state.scenarios.iter().map(|state| ScenarioRow {
            name: state.config.name.clone(),
            kind: state.config.kind.clone(),
            adjustable: state.adjustable(),
            ..ScenarioRow::default()
        });
        let planned = planned(&self.run_state.scenarios);
        let snapshot = Snapshot {
            planned,
            phase,
            scenarios: rows.collect(),
            ..Snapshot::default()
        };
        self.snapshots.send_replace(Arc::new(snapshot));
    }
}

/// Waits for the end of all workers. Returns the error that ended a worker, if any.
async fn wait(workers: Vec<Worker>) -> Option<String> {
    let mut broken = None;
    for mut worker in workers {
        match (&mut worker.over).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => broken = Some(self::broken(&error)),
            Err(_) => broken = Some("a worker thread panicked".into()),
        }
        worker.join();
    }
    broken
}

fn broken(error: &dyn std::fmt::Display) -> String {
    format!("the load generator itself failed: {error}")
}
