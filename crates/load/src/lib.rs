//! A load test engine: arrivals, histograms, thresholds, reports.
//!
//! What is done under load is a [`Scenario`]; when it is done is told by
//! [`ExecutorConfig`]; both are put together in a [`Run`], whose [`Outcome`] holds a
//! [`Summary`] and a [`Verdict`]. The engine knows nothing of certificates.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod environment;
mod execution;
pub mod executor;
pub mod histogram;
pub mod http;
pub mod metric;
pub mod plan;
pub mod recorder;
pub mod report;
pub mod run;
mod samples;
pub mod scenario;
pub mod snapshot;
pub mod stop;
pub mod summary;
mod tags;
pub mod threshold;
pub mod timeline;
mod timer;
pub mod ui;
pub mod verdict;

pub use executor::ExecutorConfig;
pub use histogram::{Histogram, HistogramError};
pub use metric::Metric;
pub use recorder::{Exchange, Failure, Iteration, Pending, Recorder, Tags};
pub use run::{Controls, Outcome, Run, Running, ScenarioConfig};
pub use scenario::{Note, PrepareError, Scenario, VirtualUser};
pub use snapshot::Snapshot;
pub use stop::Stop;
pub use summary::Summary;
pub use threshold::Thresholds;
pub use verdict::Verdict;
