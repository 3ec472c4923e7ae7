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

use crate::environment::Environment;
use crate::excuse::Excuse;
use crate::metric::Metric;
use crate::note::Note;
use crate::threshold::ThresholdResult;
use crate::timeline::Timeline;
use crate::verdict::Verdict;

/// The `schema` of what this version writes.
pub const SCHEMA: &str = "lucarne-load/1";

/// Name and value pairs, by ascending name.
pub type TagList = Vec<(String, String)>;

/// Everything that reports are made of. As JSON it is `summary.json`, whose
/// schema is documented in `docs/reference/load/summary.md`.
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
    /// The environment it ran in.
    pub environment: Environment,
    /// The time at which the first arrival was due, in Unix milliseconds.
    pub started: u64,
    /// Seconds from the first arrival to the last completion.
    pub duration: f64,
    /// Seconds from the first request sent to the last one sent.
    pub attack: f64,
    /// Seconds from the last request sent to the last one completed.
    pub wait: f64,
    /// The verdict on the run.
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
    /// The notes of the scenarios.
    pub notes: Vec<Note>,
    /// By value of the tag `connector`, if a scenario has that tag.
    #[serde(
        rename = "connector_tier",
        default,
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub connector_tier: BTreeMap<String, Tier>,
}

/// One scenario of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScenarioSummary {
    /// Its name in the plan.
    pub name: String,
    /// The registered name of the scenario.
    pub kind: String,
    /// The executor in words: `500/s for 60s`.
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
    /// The name of the check.
    pub name: String,
    /// The number of times that it was right.
    pub passes: u64,
    /// The number of times that it was not.
    pub fails: u64,
    /// The reason why its failures do not count among `checks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excused: Option<Excuse>,
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
    /// The number of them.
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
    /// The number of them.
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
    /// The number of them.
    pub count: u64,
}

fn known_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let schema = String::deserialize(deserializer)?;
    if schema == SCHEMA {
        return Ok(schema);
    }
    let problem = format!("its schema is \"{schema}\", this version reads \"{SCHEMA}\"");
    Err(serde::de::Error::custom(problem))
}
