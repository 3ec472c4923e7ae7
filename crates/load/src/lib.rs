//! A load test engine: arrivals, histograms, thresholds, reports.
//!
//! What is done under load is a [`Scenario`]; when it is done is told by
//! [`Arrivals`]; both are put together in a [`Run`], whose [`Outcome`] holds a
//! [`Summary`] and a [`Verdict`]. The engine knows nothing of certificates.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod arrival;
mod collector;
mod conduct;
mod course;
mod crowd;
mod environment;
pub mod histogram;
pub mod http;
mod lane;
pub mod metric;
pub mod plan;
pub mod recorder;
pub mod report;
pub mod run;
mod samples;
pub mod scenario;
mod seat;
pub mod snapshot;
pub mod stop;
mod summarise;
pub mod summary;
mod tags;
pub mod threshold;
pub mod timeline;
mod timer;
pub mod ui;
pub mod verdict;
mod worker;

pub use arrival::Arrivals;
pub use histogram::{Histogram, HistogramError};
pub use metric::Metric;
pub use recorder::{Exchange, Failure, Iteration, Pending, Recorder, Tags};
pub use run::{Controls, Outcome, Planned, Run, Running};
pub use scenario::{Note, PrepareError, Scenario, User};
pub use snapshot::Snapshot;
pub use stop::Stop;
pub use summary::Summary;
pub use threshold::Thresholds;
pub use verdict::Verdict;
