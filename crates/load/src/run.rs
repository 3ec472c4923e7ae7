//! A run, from its beginning to its outcome.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::conduct::Conduct;
use crate::course::{Course, Halt};
use crate::tags::Registry;
use crate::threshold::{Threshold, Thresholds};
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
        let registry = Arc::new(Registry::default());
        let courses = self.scenarios.into_iter().map(|plan| {
            let base = registry.base(&plan.name, &plan.tags);
            Arc::new(Course::new(plan, base))
        });
        let helm = Arc::new(Helm {
            courses: courses.collect(),
            halt: watch::Sender::new(Halt::No),
            reason: Mutex::new(None),
        });
        let (snapshots, seen) = watch::channel(Arc::new(Snapshot::default()));
        let terms = Terms {
            name: self.name,
            description: self.description,
            command: self.command,
            version: self.version,
            thresholds: self.thresholds.0,
            workers: self.workers,
        };
        let conduct = Conduct {
            terms,
            helm: helm.clone(),
            registry,
            snapshots,
        };
        let thread = std::thread::spawn(move || conduct.run());
        Running {
            snapshots: seen,
            helm,
            thread,
        }
    }
}

/// What a run is to keep to and to report, besides its scenarios.
pub(crate) struct Terms {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) command: Vec<String>,
    pub(crate) version: String,
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) workers: usize,
}

/// What steers a run from outside of its workers.
pub(crate) struct Helm {
    pub(crate) courses: Vec<Arc<Course>>,
    halt: watch::Sender<Halt>,
    reason: Mutex<Option<Reason>>,
}

/// Why a run ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Somebody asked for it.
    Asked,
    /// A threshold did.
    Threshold,
    /// A scenario has reached its goal.
    Goal,
}

impl Helm {
    pub(crate) fn halt(&self, halt: Halt, reason: Reason) {
        self.reason.lock().get_or_insert(reason);
        self.halt.send_modify(|known| *known = (*known).max(halt));
        self.courses.iter().for_each(|course| course.halt(halt));
    }

    pub(crate) fn is_halted(&self) -> bool {
        *self.halt.borrow() > Halt::No
    }

    /// Why the run ends before its time, if it does.
    pub(crate) fn reason(&self) -> Option<Reason> {
        *self.reason.lock()
    }

    /// Waits until the run is to be halted at least like this.
    pub(crate) async fn halted(&self, least: Halt) {
        // The sender is our own: there is no error.
        let _ = self.halt.subscribe().wait_for(|halt| *halt >= least).await;
    }
}

/// A run under way. Dropping it does not end it.
pub struct Running {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    helm: Arc<Helm>,
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
        Controls(Some(self.helm.clone()))
    }

    /// No more iterations begin; those that run have their `gracefulStop`. Said
    /// again: they are cut off, and so is `finish`.
    pub fn stop(&self) {
        let halt = if self.helm.is_halted() {
            Halt::Now
        } else {
            Halt::Gracefully
        };
        self.helm.halt(halt, Reason::Asked);
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
pub struct Controls(Option<Arc<Helm>>);

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
        self.0
            .iter()
            .flat_map(|helm| helm.courses.iter())
            .map(|course| course.control())
            .collect()
    }

    /// Multiplies what scenario `index` is asked for from now on with `factor`.
    pub fn scale(&self, index: usize, factor: f64) {
        if let Some(course) = self.course(index) {
            course.scale(|now| now * factor);
        }
    }

    /// Sets what scenario `index` is asked for now: iterations per second, or
    /// users. A ramp keeps its shape. Without effect where the plan asks for nothing.
    pub fn set(&self, index: usize, value: f64) {
        if let Some(course) = self.course(index) {
            let planned = course.planned_now();
            course.scale(|now| if planned > 0.0 { value / planned } else { now });
        }
    }

    fn course(&self, index: usize) -> Option<&Course> {
        self.0.as_ref()?.courses.get(index).map(|course| &**course)
    }
}

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}
