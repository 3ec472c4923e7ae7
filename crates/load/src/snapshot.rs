//! Current state of a run.

use std::sync::Arc;
use std::time::Duration;

use crate::executor::Adjustable;
use crate::heat::HEAT;
use crate::summary::{ErrorKind, Summary};
use crate::threshold::ThresholdResult;

/// Smallest 99th percentile of start delays that reports mark as delay by the load generator.
pub const LATE: Duration = Duration::from_millis(10);

/// State of a run; a new state each second.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Time since the first arrival was due. Zero while scenarios prepare.
    pub elapsed: Duration,
    /// Planned time of arrivals, without `gracefulStop`.
    pub planned: Duration,
    /// Phase of the run.
    pub phase: Phase,
    /// Rows of the scenarios, in the plan's order.
    pub scenarios: Vec<ScenarioRow>,
    /// Failures since the beginning, the most frequent first.
    pub errors: Vec<ErrorKind>,
    /// Current state of the thresholds.
    pub thresholds: Vec<ThresholdResult>,
    /// All samples so far in the OpenMetrics text format, if the run
    /// [exposes](crate::Run::exposed) them.
    pub metrics: Option<String>,
    /// Summary of all samples so far, if the run [has one](crate::Run::summarised).
    pub summary: Option<Arc<Summary>>,
}

/// Phases of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// Scenarios prepare; no iteration has started.
    #[default]
    Preparing,
    /// Scenarios are prepared; the run waits for its start.
    Waiting,
    /// Iterations begin and end.
    Running,
    /// No further iterations begin; the run waits for running iterations.
    Stopping,
    /// Scenarios finish with their audits.
    Finishing,
    /// The run has ended.
    Over,
}

/// A scenario in the last second, unless stated otherwise.
#[derive(Debug, Clone, Default)]
pub struct ScenarioRow {
    /// Name in the plan.
    pub name: String,
    /// Registered name of the scenario's kind.
    pub kind: String,
    /// Quantity that keys change.
    pub adjustable: Adjustable,
    /// Target iterations per second; 0 for scenarios by users.
    pub asked: f64,
    /// Started iterations per second.
    pub achieved: f64,
    /// Iterations completed per second.
    pub iterations: f64,
    /// Number of users.
    pub users: u64,
    /// Number of users in an iteration.
    pub busy: u64,
    /// Arrivals that are waiting for a user.
    pub waiting: u64,
    /// Number of iterations started since the start of the run.
    pub started_total: u64,
    /// Arrivals dropped since the start.
    pub dropped: u64,
    /// Failed checks since the start.
    pub failed_checks: u64,
    /// 99th percentile of the delay by the load generator before iterations.
    pub start_delay: Duration,
    /// Figures of the requests.
    pub figures: RequestFigures,
    /// Counts of the durations in the buckets of [`heat_bounds`](crate::heat::heat_bounds).
    pub heat: [u32; HEAT],
    /// The busiest parts, the busiest first. Empty if the scenario has a single part.
    pub parts: Vec<PartRow>,
}

/// A part of a scenario in the last second: an operation, a step or a cell.
#[derive(Debug, Clone, Default)]
pub struct PartRow {
    /// Values of the tags that distinguish the parts of the scenario.
    pub name: String,
    /// Figures of the requests.
    pub figures: RequestFigures,
}

/// Requests in the last second.
#[derive(Debug, Clone, Default)]
pub struct RequestFigures {
    /// Requests completed per second.
    pub requests: f64,
    /// Failures per second: failed requests, failed iterations and other failures.
    pub failures: f64,
    /// Bytes received per second.
    pub bytes_in: f64,
    /// Bytes sent per second.
    pub bytes_out: f64,
    /// Median of request durations, or of iterations if there are no requests.
    pub p50: Duration,
    /// 90th percentile of the same durations.
    pub p90: Duration,
    /// 99th percentile of the same durations.
    pub p99: Duration,
    /// Longest of the same durations.
    pub max: Duration,
}
