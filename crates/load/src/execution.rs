//! Execution of a run: prepare, load, finish, summarize.

mod arrival_rate;
mod collector;
mod drain;
mod finish;
pub(crate) mod run_state;
pub(crate) mod scenario_state;
mod summarise;
mod vu;
mod vus;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::environment::{Environment, peak_memory, process_cpu};
use crate::executor::ExecutorError;
use crate::http::kind;
use crate::metric::Metric;
use crate::note::Note;
use crate::outcome::Outcome;
use crate::recorder::Recorder;
use crate::samples::SampleBuffer;
use crate::scenario::PrepareError;
use crate::snapshot::{Phase, ScenarioRow, Snapshot};
use crate::stop::Stop;
use crate::summary::{Check, ErrorKind, Series, Summary};
use crate::tags::TagRegistry;
use crate::threshold::Threshold;
use crate::verdict::Verdict;
use collector::{Collector, planned};
use finish::{Finish, cut_short};
use run_state::{RunState, StopReason};
use scenario_state::{ScenarioState, StopMode};
use summarise::{RunTimes, summarise};
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
}

/// Reasons why there is nothing to run.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("there is no scenario to run")]
    Nothing,
    #[error("scenario \"{scenario}\": {source}")]
    Executor {
        scenario: String,
        source: ExecutorError,
    },
    #[error("there are two scenarios \"{0}\"")]
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
                // A DNS query that is still running is not waited for.
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
        self.announce_preparing();
        self.prepare().await?;
        let workers = self
            .workers()
            .map_err(|error| self.refused(Verdict::Configuration, broken(&error)))?;
        let begin = Instant::now() + LEAD;
        let started = SystemTime::now() + LEAD;
        let started = started
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64);
        let cpu = process_cpu();
        for state in &self.run_state.scenarios {
            let _ = state.begin.set(begin + state.config.start);
        }
        workers.0.iter().for_each(|worker| worker.begin(begin));
        let collecting = self.collect(begin, workers.1);
        let (stopper, stop) = Stop::new();
        let beside = self.background(&collecting.shard, stop);
        let goals = self.goals();
        let broken = wait(workers.0).await;
        drop(goals);
        let end = Instant::now();
        let times = RunTimes {
            begin,
            started,
            end,
            process_cpu: process_cpu().saturating_sub(cpu),
        };
        collecting.say(Phase::Finishing);
        self.run_state.begin_finishing();
        stopper.stop();
        let finish = self.finish(beside, &collecting.shard).await;
        Ok(self.sum_up(collecting.over(), &times, finish, broken))
    }

    /// Checks that there are scenarios, and that they can be run.
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

    /// Prepares all scenarios concurrently.
    async fn prepare(&self) -> Result<(), Outcome> {
        let mut preparing = JoinSet::new();
        for state in &self.run_state.scenarios {
            let (name, scenario) = (state.config.name.clone(), state.config.scenario.clone());
            preparing.spawn(async move { (name, scenario.prepare().await) });
        }
        loop {
            let prepared = tokio::select! {
                prepared = preparing.join_next() => prepared,
                () = self.run_state.stopped(StopMode::Gracefully) => {
                    return Err(self.refused(Verdict::Interrupted, "stopped while preparing".into()));
                }
            };
            let (name, result) = match prepared {
                None => return Ok(()),
                Some(Ok(prepared)) => prepared,
                Some(Err(panic)) => {
                    return Err(self.refused(Verdict::Configuration, broken(&panic)));
                }
            };
            if let Err(error) = result {
                let said = self.of_scenario(&name, &error);
                return Err(match error {
                    PrepareError::Configuration(_) => self.refused(Verdict::Configuration, said),
                    PrepareError::Unreachable(_) => self.refused(Verdict::Unreachable, said),
                    PrepareError::Faulty { check, detail } => {
                        self.faulty(&name, check, detail, said)
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
                number,
                count,
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
                scenario.reached().await;
                run_state.stop(StopMode::Gracefully, StopReason::Goal);
            });
        }
        goals
    }

    /// Starts the thread that collects samples.
    fn collect(&self, begin: Instant, mut shards: Vec<Arc<SampleBuffer>>) -> Collecting {
        let shard = Arc::new(SampleBuffer::default());
        shards.push(shard.clone());
        let thresholds = self.options.thresholds.clone();
        let scenarios = self.run_state.scenarios.clone();
        let mut collector =
            Collector::new(scenarios, self.registry.clone(), shards, thresholds, begin);
        let (phases, told) = mpsc::channel();
        let (snapshots, run_state) = (self.snapshots.clone(), self.run_state.clone());
        let thread = std::thread::spawn(move || {
            collect_each_second(&mut collector, &told, &snapshots, &run_state);
            collector
        });
        Collecting {
            shard,
            phases,
            thread,
        }
    }

    fn sum_up(
        &self,
        collected: Option<Collector>,
        times: &RunTimes,
        finish: Finish,
        broken: Option<String>,
    ) -> Outcome {
        let Some(mut collector) = collected else {
            return self.refused(Verdict::Configuration, "the collector has failed".into());
        };
        collector.phase = Phase::Over;
        let snapshot = collector.collect(Instant::now());
        let mut summary = summarise(&collector, times, self.empty());
        summary.notes.extend(finish.notes);
        summary.notes.extend(self.unknown_checks(&summary));
        if let Some(error) = &broken {
            summary.notes.push(cut_short(error));
        }
        summary.verdict = match self.run_state.reason() {
            Some(StopReason::Asked) => Verdict::Interrupted,
            _ if never_answered(&summary) => Verdict::Unreachable,
            _ if broken.is_some() => Verdict::Interrupted,
            _ if finish.failed => Verdict::Crossed,
            _ => summary.held(),
        };
        self.snapshots.send_replace(Arc::new(snapshot));
        Outcome {
            verdict: summary.verdict,
            summary,
            error: broken,
        }
    }

    /// Returns a warning about permitted checks that no scenario ran.
    fn unknown_checks(&self, summary: &Summary) -> Option<Note> {
        let made = |name: &String| summary.checks.iter().any(|check| check.name == *name);
        let unknown = self.options.allow.iter().filter(|name| !made(name));
        let lines: Vec<_> = unknown
            .map(|name| format!("no check has the name \"{name}\""))
            .collect();
        (!lines.is_empty()).then(|| Note {
            title: "Warning: --allow names checks that did not run".into(),
            lines,
        })
    }

    /// Returns the outcome of a run that did not begin.
    fn refused(&self, verdict: Verdict, error: String) -> Outcome {
        let note = Note {
            title: "The run did not begin".into(),
            lines: vec![error.clone()],
        };
        let scenarios = self
            .run_state
            .scenarios
            .iter()
            .map(|state| summarise::scenario(state));
        let summary = Summary {
            verdict,
            notes: vec![note],
            scenarios: scenarios.collect(),
            ..self.empty()
        };
        Outcome {
            summary,
            verdict,
            error: Some(error),
        }
    }

    /// Returns the outcome of a run that did not begin, because a check failed during preparation.
    fn faulty(
        &self,
        scenario: &str,
        check: &'static str,
        detail: String,
        error: String,
    ) -> Outcome {
        let mut outcome = self.refused(Verdict::Crossed, error);
        let summary = &mut outcome.summary;
        let state = self
            .run_state
            .scenarios
            .iter()
            .find(|state| state.config.name == scenario);
        let tags = state.and_then(|state| self.registry.get(state.base));
        let tags = tags.map_or_else(Vec::new, |tags| tags.to_vec());
        let checks = Metric::Rate { good: 0, total: 1 };
        summary.series.push(Series {
            tags: tags.clone(),
            metrics: [("checks".to_owned(), checks)].into(),
        });
        summary.checks.push(Check {
            tags,
            name: check.into(),
            passes: 0,
            fails: 1,
            excused: None,
            details: vec![detail.clone()],
        });
        summary.errors.push(ErrorKind {
            scenario: scenario.into(),
            kind: check.into(),
            count: 1,
            details: vec![detail],
        });
        let select = |metric: &str, tags: &[(&str, &str)]| summary.select(metric, tags);
        // There was no load, so the built-in thresholds have no meaning.
        let judged = self.options.thresholds.iter();
        summary.thresholds = judged
            .filter(|threshold| !threshold.is_built_in())
            .map(|threshold| threshold.evaluate(select, 0.0))
            .collect();
        summary.tell_metrics();
        outcome
    }

    /// Formats an error, with the scenario's name if there are several.
    fn of_scenario(&self, name: &str, error: &PrepareError) -> String {
        match self.run_state.scenarios.len() {
            1 => error.to_string(),
            _ => format!("scenario \"{name}\": {error}"),
        }
    }

    /// Returns a summary of the options, without any results.
    fn empty(&self) -> Summary {
        let options = &self.options;
        Summary {
            schema: crate::summary::SCHEMA.into(),
            name: options.name.clone(),
            description: options.description.clone(),
            command: options.command.clone(),
            environment: Environment {
                peak_memory: peak_memory(),
                ..Environment::here(&options.version, options.workers)
            },
            ..Summary::default()
        }
    }

    fn announce_preparing(&self) {
        let rows = self.run_state.scenarios.iter().map(|state| ScenarioRow {
            name: state.config.name.clone(),
            kind: state.config.kind.clone(),
            adjustable: state.adjustable(),
            ..ScenarioRow::default()
        });
        let planned = planned(&self.run_state.scenarios);
        let snapshot = Snapshot {
            planned,
            scenarios: rows.collect(),
            ..Snapshot::default()
        };
        self.snapshots.send_replace(Arc::new(snapshot));
    }
}

/// Thread that collects samples.
struct Collecting {
    /// Buffer of samples that are recorded outside the workers.
    shard: Arc<SampleBuffer>,
    phases: mpsc::Sender<Phase>,
    thread: std::thread::JoinHandle<Collector>,
}

impl Collecting {
    fn say(&self, phase: Phase) {
        let _ = self.phases.send(phase);
    }

    fn over(self) -> Option<Collector> {
        drop(self.phases);
        self.thread.join().ok()
    }
}

/// Collects samples every second until the sender of phases is dropped.
fn collect_each_second(
    collector: &mut Collector,
    phases: &mpsc::Receiver<Phase>,
    snapshots: &watch::Sender<Arc<Snapshot>>,
    run_state: &RunState,
) {
    let mut tick = 1;
    loop {
        let next = collector.begin + Duration::from_secs(tick);
        match phases.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(phase) => {
                // The rest of the last interval still belongs to the load.
                collector.collect(Instant::now());
                collector.phase = phase;
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        if collector.phase == Phase::Running && has_ended(collector, run_state, now) {
            collector.phase = Phase::Stopping;
        }
        let snapshot = collector.collect(now);
        if !collector.aborted.is_empty() {
            run_state.stop(StopMode::Gracefully, StopReason::Threshold);
        }
        snapshots.send_replace(Arc::new(snapshot));
        // A missed second is not repeated.
        tick = now.saturating_duration_since(collector.begin).as_secs() + 1;
    }
}

fn has_ended(collector: &Collector, run_state: &RunState, now: Instant) -> bool {
    let ended = |state: &Arc<ScenarioState>| state.end().is_some_and(|end| end <= now);
    run_state.is_stopping() || collector.scenarios.iter().all(ended)
}

/// Waits for the end of all workers. Returns the error that ended one.
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

/// Returns whether requests were sent, and none received a response.
fn never_answered(summary: &Summary) -> bool {
    let (failed, requests) = match summary.total("http_req_failed") {
        Some(crate::Metric::Rate { good, total }) => (good, total),
        _ => (0, 0),
    };
    // A server that presents a certificate was reached, even if the certificate is invalid.
    let shown = summary
        .errors
        .iter()
        .any(|error| error.kind == kind::CERTIFICATE);
    let silent = summary.statuses.iter().all(|status| status.code == 0);
    requests > 0 && failed == requests && silent && !shown
}

fn broken(error: &dyn std::fmt::Display) -> String {
    format!("the load generator itself failed: {error}")
}
