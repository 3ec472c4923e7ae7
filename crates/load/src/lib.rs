//! Load test engine: arrivals, histograms, thresholds, reports.
//!
//! A [`Scenario`] defines the work, and an [`ExecutorConfig`] its timing. A [`Run`] combines both.
//! Its [`Outcome`] has a [`Summary`] and a [`Verdict`]. Scenarios are in `lucarne-scenarios`.
//!
//! ```text
//! plan → ScenarioConfig → Run → executor → VirtualUser → Client → server
//!                                               │
//!                Snapshot ← collector ← Recorder, Iteration
//!                   │           │
//!            ui, lines    Summary → Thresholds → Verdict → Outcome → report
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`plan`] | YAML files that define load and thresholds |
//! | [`ScenarioConfig`], [`ExecutorConfig`] | one scenario, and the start of its iterations |
//! | [`Scenario`], [`VirtualUser`] | the work under load |
//! | [`Run`], [`Part`], [`Running`], [`Controls`], [`Stop`] | a run, changes to its load, and its end |
//! | `execution`, `timer` | the steps of a run on its threads |
//! | [`mod@http`], [`Exchange`], [`Failure`] | HTTP requests with the time of each phase |
//! | [`Iteration`], [`Pending`], [`Recorder`] | samples of one user |
//! | [`Tags`], [`Metric`], [`Histogram`] | samples by tag set, and their statistics |
//! | [`Snapshot`], [`timeline`], [`heat`], `exposition` | the state of a run, its course over time, and its metrics for Prometheus |
//! | `ui`, [`lines`] | live view in a terminal, and one line per second |
//! | [`Summary`], [`Thresholds`], [`excuse`] | the source of all reports, and its evaluation |
//! | [`Outcome`], [`Verdict`], [`Note`] | the result of a run |
//! | [`environment`], [`report`] | the environment, and reports as text and HTML |
//!
//! A run of ten iterations by one user:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use async_trait::async_trait;
//! use lucarne_load::{
//!     ExecutorConfig, Iteration, PrepareError, Recorder, Run, Scenario, ScenarioConfig, VirtualUser,
//! };
//!
//! struct Example;
//! struct User;
//!
//! #[async_trait]
//! impl Scenario for Example {
//!     async fn prepare(&self) -> Result<(), PrepareError> {
//!         Ok(())
//!     }
//!
//!     fn user(&self, _number: u64, _recorder: &Recorder) -> Box<dyn VirtualUser> {
//!         Box::new(User)
//!     }
//! }
//!
//! #[async_trait]
//! impl VirtualUser for User {
//!     async fn iterate(&mut self, iteration: &mut Iteration) {
//!         iteration.passed(iteration.base(), "works");
//!     }
//! }
//!
//! let executor = ExecutorConfig::ConstantVus {
//!     vus: 1,
//!     duration: Duration::from_secs(60),
//!     iterations: Some(10),
//! };
//! let scenario = ScenarioConfig::new("example", executor, Arc::new(Example));
//! let run = Run { scenarios: vec![scenario], ..Run::default() };
//! let outcome = run.start().wait();
//! assert_eq!(outcome.summary.scenarios[0].completed, 10);
//! assert_eq!(outcome.verdict.exit_code(), 0);
//! ```

pub mod controls;
pub mod environment;
pub mod exchange;
pub mod excuse;
mod execution;
pub mod executor;
mod exposition;
pub mod heat;
pub mod histogram;
pub mod http;
pub mod iteration;
pub mod lines;
pub mod metric;
pub mod note;
pub mod outcome;
pub mod part;
pub mod plan;
pub mod random;
pub mod recorder;
pub mod report;
pub mod run;
mod samples;
pub mod scenario;
pub mod scenario_config;
pub mod snapshot;
pub mod stop;
pub mod summary;
mod tags;
pub mod threshold;
pub mod timeline;
mod timer;
#[cfg(feature = "tui")]
pub mod ui;
mod user_time;
pub mod verdict;

pub use controls::Controls;
pub use exchange::{Exchange, Failure};
pub use executor::{ExecutorConfig, ExecutorError};
pub use histogram::{Histogram, HistogramError};
pub use iteration::{Iteration, Pending};
pub use metric::Metric;
pub use note::Note;
pub use outcome::Outcome;
pub use part::Part;
pub use recorder::Recorder;
pub use run::{Run, Running};
pub use scenario::{OwnMetrics, PrepareError, Scenario, VirtualUser};
pub use scenario_config::ScenarioConfig;
pub use snapshot::Snapshot;
pub use stop::Stop;
pub use summary::Summary;
pub use tags::Tags;
pub use threshold::Thresholds;
pub use verdict::Verdict;
