//! Summary of a run: the source of all reports.

mod k6;
mod lasting;
pub(crate) mod merge;
mod plausible;
pub(crate) mod select;
mod tag_map;
mod tier;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

pub use k6::{Kept, Shown};
pub use lasting::LastingFailure;
pub use plausible::ImpossibleFigure;
pub use tier::Tier;

use crate::environment::Environment;
use crate::excuse::Excuse;
use crate::metric::Metric;
use crate::note::Note;
use crate::threshold::ThresholdResult;
use crate::timeline::Timeline;
use crate::verdict::Verdict;

/// Value of `schema` that this version writes.
pub const SCHEMA: &str = "lucarne-load/1";

/// Pairs of name and value, in ascending order of names.
pub type TagList = Vec<(String, String)>;

/// The data of all reports. Its JSON form is `summary.json`, whose schema is documented in
/// `docs/reference/load/summary.md`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Schema of the file: [`SCHEMA`].
    #[serde(deserialize_with = "known_schema")]
    pub schema: String,
    /// Name of the plan.
    pub name: String,
    /// Description of the plan.
    pub description: String,
    /// Command line.
    pub command: Vec<String>,
    /// Environment of the run.
    pub environment: Environment,
    /// Due time of the first arrival, in Unix milliseconds.
    pub started: u64,
    /// Seconds from the first arrival to the last completion.
    pub duration: f64,
    /// Seconds from the first request sent to the last request sent.
    pub attack: f64,
    /// Seconds from the last request sent to the last request completed.
    pub wait: f64,
    /// Verdict on the run.
    pub verdict: Verdict,
    /// Scenarios in the plan's order.
    pub scenarios: Vec<ScenarioSummary>,
    /// Each metric in total and of each scenario, as in k6's `handleSummary`:
    /// `metrics["http_req_duration{scenario:write}"].values["p(95)"]`. Computed from the series and
    /// ignored when read.
    #[serde(default, skip_deserializing)]
    pub metrics: BTreeMap<String, Shown>,
    /// Metrics of each set of tags.
    pub series: Vec<Series>,
    /// Checks by tags and name.
    pub checks: Vec<Check>,
    /// Failures by scenario and kind, the most frequent first.
    pub errors: Vec<ErrorKind>,
    /// Responses by tags and status; 0 means no response.
    pub statuses: Vec<Status>,
    /// Responses by tags and protocol.
    pub protocols: Vec<Protocol>,
    /// Thresholds, including built-in thresholds.
    pub thresholds: Vec<ThresholdResult>,
    /// Course of the run over time.
    pub timeline: Timeline,
    /// Notes of the scenarios.
    pub notes: Vec<Note>,
    /// Failures of the run that its figures do not show, and that therefore stay after a merge.
    /// `None` in summaries of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting_failures: Option<Vec<LastingFailure>>,
    /// Figures by value of the tag `connector`, if a scenario has that tag.
    #[serde(
        rename = "connector_tier",
        default,
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub connector_tier: BTreeMap<String, Tier>,
}

/// A scenario of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScenarioSummary {
    /// Name in the plan.
    pub name: String,
    /// Registered name of the scenario's kind.
    pub kind: String,
    /// Executor in words: `500/s for 60s`.
    pub executor: String,
    /// Tags in the plan.
    #[serde(with = "tag_map")]
    pub tags: TagList,
    /// Number of iterations that were due to start.
    pub asked: u64,
    /// Iterations that began.
    pub started: u64,
    /// Iterations that finished.
    pub completed: u64,
    /// Arrivals that did not begin in time.
    pub dropped: u64,
    /// Iterations cut off at the end.
    pub interrupted: u64,
    /// Ratio `started / asked`; 1 if no iterations were planned.
    pub achieved: f64,
    /// Largest number of users at the same time.
    pub users_max: u64,
    /// Seconds from the first arrival to the last completion.
    pub duration: f64,
}

/// All metrics of one set of tags.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    /// Tags, which always include `scenario`.
    #[serde(with = "tag_map")]
    pub tags: TagList,
    /// Metrics by name.
    pub metrics: BTreeMap<String, Metric>,
}

/// A check of one set of tags.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Check {
    /// Tags, which always include `scenario`.
    #[serde(with = "tag_map")]
    pub tags: TagList,
    /// Name of the check.
    pub name: String,
    /// Number of passes.
    pub passes: u64,
    /// Number of failures.
    pub fails: u64,
    /// Reason why failures of the check do not count among `checks`; `None` if they count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excused: Option<Excuse>,
    /// Details of the first ten failures.
    pub details: Vec<String>,
}

/// Failures of one kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrorKind {
    /// Name of the scenario.
    pub scenario: String,
    /// Kind of the failures.
    pub kind: String,
    /// Number of failures.
    pub count: u64,
    /// Details of the first ten failures.
    pub details: Vec<String>,
}

/// Responses of one status.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Tags, which always include `scenario`.
    #[serde(with = "tag_map")]
    pub tags: TagList,
    /// Status; 0 means no response.
    pub code: u16,
    /// Number of responses.
    pub count: u64,
}

/// Responses of one protocol.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Protocol {
    /// Tags, which always include `scenario`.
    #[serde(with = "tag_map")]
    pub tags: TagList,
    /// Name of the protocol.
    pub name: String,
    /// Number of responses.
    pub count: u64,
}

impl Check {
    /// Returns whether the check has failures that count among `checks`.
    #[cfg(feature = "html")]
    pub(crate) fn failed(&self) -> bool {
        self.fails > 0 && self.excused.is_none()
    }
}

impl ErrorKind {
    /// Returns the detail of the first failure.
    pub(crate) fn example(&self) -> &str {
        self.details.first().map_or("", String::as_str)
    }
}

fn known_schema<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let schema = String::deserialize(deserializer)?;
    if schema == SCHEMA {
        return Ok(schema);
    }
    let problem = format!("the schema is \"{schema}\", expected \"{SCHEMA}\"");
    Err(serde::de::Error::custom(problem))
}
