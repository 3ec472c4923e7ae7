//! A run as it is at the moment.

use std::time::Duration;

use crate::executor::Adjustable;
use crate::heat::HEAT;
use crate::summary::ErrorKind;
use crate::threshold::ThresholdResult;

/// From here on it matters that the load generator itself began iterations late.
pub const LATE: Duration = Duration::from_millis(10);

/// A run as it is at the moment; one each second.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Since the first arrival was due. Zero while scenarios still prepare.
    pub elapsed: Duration,
    /// The time for which arrivals go on, without `gracefulStop`.
    pub planned: Duration,
    /// The phase of the run.
    pub phase: Phase,
    /// One row per scenario, in the plan's order.
    pub scenarios: Vec<ScenarioRow>,
    /// Failures since the beginning, the most frequent first.
    pub errors: Vec<ErrorKind>,
    /// Thresholds as they stand now.
    pub thresholds: Vec<ThresholdResult>,
}

/// The phase of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// Scenarios prepare; nothing has begun.
    #[default]
    Preparing,
    /// Iterations begin and end.
    Running,
    /// No more iterations begin; those that run are waited for.
    Stopping,
    /// Scenarios finish: audits.
    Finishing,
    /// It is over.
    Over,
}

/// One scenario in the last second, unless said otherwise.
#[derive(Debug, Clone, Default)]
pub struct ScenarioRow {
    /// Its name in the plan.
    pub name: String,
    /// The registered name of the scenario.
    pub kind: String,
    /// The quantity that its keys change.
    pub adjustable: Adjustable,
    /// Iterations per second asked for; 0 for scenarios by users.
    pub asked: f64,
    /// Iterations begun, per second.
    pub achieved: f64,
    /// Iterations completed, per second.
    pub iterations: f64,
    /// Requests completed, per second.
    pub requests: f64,
    /// Failures per second: failed requests, iterations and what else failed.
    pub failures: f64,
    /// Bytes received, per second.
    pub bytes_in: f64,
    /// Bytes sent, per second.
    pub bytes_out: f64,
    /// Users there are.
    pub users: u64,
    /// Users in an iteration.
    pub busy: u64,
    /// Arrivals that wait for a user.
    pub waiting: u64,
    /// Iterations begun since the beginning.
    pub started_total: u64,
    /// Arrivals dropped since the beginning.
    pub dropped: u64,
    /// Failed checks since the beginning.
    pub failed_checks: u64,
    /// 99th percentile of what the load generator itself lost before iterations began.
    pub start_delay: Duration,
    /// Median of request durations, or of iterations if there are no requests.
    pub p50: Duration,
    /// 90th percentile.
    pub p90: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
    /// The same durations counted by [`heat_bounds`](crate::heat::heat_bounds).
    pub heat: [u32; HEAT],
}
