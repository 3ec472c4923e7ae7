//! Everything that reports are made of.

mod k6;
pub(crate) mod merge;
pub(crate) mod select;
mod tag_map;
mod tier;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

pub use k6::{Kept, Shown};
pub use tier::Tier;

use crate::scenario::Note;
use crate::snapshot::HEAT;
use crate::{Metric, Verdict};

/// The `schema` of what this version writes.
pub const SCHEMA: &str = "lucarne-load/1";

/// Name and value pairs, by ascending name.
pub type TagList = Vec<(String, String)>;

/// Everything that reports are made of. As JSON it is `summary.json`, whose
/// schema is documented in `docs/load/summary.md`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// [`SCHEMA`]
    #[serde(deserialize_with = "known_schema")]
    pub schema: String,
    /// The plan's name.
    pub name: String,
    /// The plan's description.
    pub description: String,
    /// The command line.
    pub command: Vec<String>,
    /// Where it ran.
    pub environment: Environment,
    /// When the first arrival was due, in Unix milliseconds.
    pub started: u64,
    /// Seconds from the first arrival to the last completion.
    pub duration: f64,
    /// Seconds from the first request sent to the last one sent.
    pub attack: f64,
    /// Seconds from the last request sent to the last one completed.
    pub wait: f64,
    /// What the run came to.
    pub verdict: Verdict,
    /// In the plan's order.
    pub scenarios: Vec<ScenarioSummary>,
    /// Each metric over everything and over each scenario, as k6's `handleSummary`
    /// gets them: `metrics["http_req_duration{scenario:write}"].values["p(95)"]`.
    /// Worked out of the series; not read.
    #[serde(default, skip_deserializing)]
    pub metrics: BTreeMap<String, Shown>,
    /// One per set of tags.
    pub series: Vec<Series>,
    /// Checks by tags and name.
    pub checks: Vec<Check>,
    /// Failures by scenario and kind, the most frequent first.
    pub errors: Vec<ErrorKind>,
    /// Responses by tags and status; 0 is no response.
    pub statuses: Vec<Status>,
    /// Responses by tags and protocol.
    pub protocols: Vec<Protocol>,
    /// The built-in thresholds too.
    pub thresholds: Vec<ThresholdResult>,
    /// The run over time.
    pub timeline: Timeline,
    /// What scenarios had to say.
    pub notes: Vec<Note>,
    /// By value of the tag `connector`, if a scenario has that tag.
    #[serde(
        rename = "connector_tier",
        default,
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub connector_tier: BTreeMap<String, Tier>,
}

/// Where a run ran.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Environment {
    /// The host's name.
    pub host: String,
    /// The operating system.
    pub system: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's model.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// The version of this program.
    pub version: String,
    /// Worker threads.
    pub threads: u32,
    /// Seconds of processor time that this process took from the first arrival to
    /// the last completion.
    pub process_cpu: Option<f64>,
    /// The most memory that this process had resident, in bytes.
    pub peak_memory: Option<u64>,
}

/// One scenario of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScenarioSummary {
    /// Its name in the plan.
    pub name: String,
    /// What was done.
    pub kind: String,
    /// When: `500/s for 60s`.
    pub executor: String,
    /// Its tags in the plan.
    #[serde(with = "tag_map")]
    pub tags: TagList,
    /// Iterations that should have begun.
    pub asked: u64,
    /// Iterations that began.
    pub started: u64,
    /// Iterations that came to their end.
    pub completed: u64,
    /// Arrivals that did not begin in time.
    pub dropped: u64,
    /// Iterations cut off at the end.
    pub interrupted: u64,
    /// `started / asked`; 1 if nothing was asked for.
    pub achieved: f64,
    /// The most users at one time.
    pub users_max: u64,
    /// Seconds from its first arrival to its last completion.
    pub duration: f64,
}

/// All metrics of one set of tags.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    /// `scenario` is always one of them.
    #[serde(with = "tag_map")]
    pub tags: TagList,
    /// By name.
    pub metrics: BTreeMap<String, Metric>,
}

/// One check of one set of tags.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Check {
    /// `scenario` is always one of them.
    #[serde(with = "tag_map")]
    pub tags: TagList,
    /// What was checked.
    pub name: String,
    /// How often it was right.
    pub passes: u64,
    /// How often it was not.
    pub fails: u64,
    /// The first ten of those.
    pub details: Vec<String>,
}

/// Failures of one kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrorKind {
    /// The scenario.
    pub scenario: String,
    /// The kind.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// The first ten.
    pub details: Vec<String>,
}

/// Responses of one status.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// `scenario` is always one of them.
    #[serde(with = "tag_map")]
    pub tags: TagList,
    /// The status; 0 is no response.
    pub code: u16,
    /// How many.
    pub count: u64,
}

/// Responses of one protocol.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Protocol {
    /// `scenario` is always one of them.
    #[serde(with = "tag_map")]
    pub tags: TagList,
    /// The protocol.
    pub name: String,
    /// How many.
    pub count: u64,
}

/// What became of a threshold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThresholdResult {
    /// `metric` or `metric{tag:value}`.
    pub metric: String,
    /// `p(95)<500`
    pub expression: String,
    /// What was measured, in the expression's unit: milliseconds for durations.
    /// `None` without samples.
    pub observed: Option<f64>,
    /// How many samples there are.
    pub samples: u64,
    /// Whether it holds.
    pub passed: bool,
    /// Whether it ended the run.
    pub aborted: bool,
    /// Whether nobody asked for it: every run by rate has it.
    pub built_in: bool,
    /// Why it does not hold, where that is not plain from the figures.
    pub reason: Option<String>,
}

/// A run over time, in a bounded number of points.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeline {
    /// Seconds from one point to the next.
    pub interval: f64,
    /// In the order of time.
    pub points: Vec<Point>,
}

/// One interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Point {
    /// Where it begins, in seconds after the first arrival.
    pub at: f64,
    /// One row per scenario, in the order of [`Summary::scenarios`].
    pub scenarios: Vec<PointRow>,
}

/// One scenario in one interval.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PointRow {
    /// Iterations per second asked for; 0 for scenarios by users.
    pub asked: f64,
    /// Iterations that began.
    pub started: u64,
    /// Iterations that came to their end.
    pub iterations: u64,
    /// Requests completed.
    pub requests: u64,
    /// Failures.
    pub failures: u64,
    /// Arrivals dropped.
    pub dropped: u64,
    /// Users there were, at the end of the interval.
    pub users: u32,
    /// Users in an iteration, at the end of the interval.
    pub busy: u32,
    /// Median of request durations, or of iterations if there are no requests, in µs.
    pub p50: u64,
    /// 90th percentile, in µs.
    pub p90: u64,
    /// 99th percentile, in µs.
    pub p99: u64,
    /// The longest, in µs.
    pub max: u64,
    /// The same durations counted by [`heat_bounds`](crate::snapshot::heat_bounds).
    pub heat: [u32; HEAT],
}

fn known_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let schema = String::deserialize(deserializer)?;
    if schema == SCHEMA {
        return Ok(schema);
    }
    let problem = format!("its schema is \"{schema}\", this version reads \"{SCHEMA}\"");
    Err(serde::de::Error::custom(problem))
}
