//! A scenario of a plan.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use lucarne_settings::tree::Entry;
use lucarne_settings::{Located, Node, Reader, Report, Section, Value, nearest, values};

use super::{Build, Kind, executor, tags};
use crate::threshold::Threshold;
use crate::{ExecutorConfig, OwnMetrics, PrepareError, ScenarioConfig};

/// Keys of every scenario, with any executor.
pub(super) const COMMON: &[&str] = &[
    "scenario",
    "executor",
    "startTime",
    "gracefulStop",
    "tags",
    "options",
];

/// Other keys of k6, and their replacements.
const FOREIGN: &[(&str, &str)] = &[
    (
        "exec",
        "is a function of a k6 script; here `scenario` names the work, `options` its details",
    ),
    (
        "env",
        "is for k6's scripts; write ${NAME} or ${NAME:-default} into the values",
    ),
    (
        "gracefulRampDown",
        "is not needed: a user that ramps down always ends its iteration first",
    ),
];

/// A scenario as planned.
pub struct PlannedScenario {
    /// Name in the plan, which is also its tag `scenario`.
    pub name: String,
    /// Name of the scenario's kind, for example `ct-write`.
    pub kind: String,
    /// Executor of the iterations.
    pub executor: ExecutorConfig,
    /// Time from the start of the run to the start of the scenario.
    pub start: Duration,
    /// Time for iterations to finish after the end of the scenario.
    pub graceful_stop: Duration,
    /// Tags of all samples.
    pub tags: Vec<(String, String)>,
    /// Default thresholds, unless the plan has other thresholds for the same metrics.
    pub demands: Vec<Threshold>,
    /// Metrics that the scenario itself records, if they are known.
    pub metrics: Option<OwnMetrics>,
    /// Builder of the scenario.
    pub build: Build,
}

impl PlannedScenario {
    /// Adds tags, unless there is a tag of the same name.
    pub(super) fn add_tags(&mut self, shared: &[(String, String)]) {
        for tag in shared {
            if self.tags.iter().all(|(name, _)| *name != tag.0) {
                self.tags.push(tag.clone());
            }
        }
    }

    /// Builds the scenario with `seed` for its random choices.
    ///
    /// # Errors
    /// If the options of the scenario contradict each other.
    pub fn into_config(self, seed: u64) -> Result<ScenarioConfig, PrepareError> {
        let scenario = (self.build)(seed).map_err(|error| self.name_it(error))?;
        Ok(ScenarioConfig {
            name: self.name,
            kind: self.kind,
            executor: self.executor,
            start: self.start,
            graceful_stop: self.graceful_stop,
            tags: self.tags,
            demands: self.demands,
            seed,
            scenario,
        })
    }

    fn name_it(&self, error: PrepareError) -> PrepareError {
        let named = |why| format!("scenario {}: {why}", self.name);
        match error {
            PrepareError::Configuration(why) => PrepareError::Configuration(named(why)),
            PrepareError::Unreachable(why) => PrepareError::Unreachable(named(why)),
            // Building a scenario sends no requests.
            faulty @ PrepareError::Faulty { .. } => faulty,
        }
    }
}

impl fmt::Debug for PlannedScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlannedScenario")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("executor", &self.executor)
            .finish_non_exhaustive()
    }
}

/// Parses a scenario.
pub(super) fn read(entry: &Entry, kinds: &[Kind], report: &mut Report) -> Option<PlannedScenario> {
    let path = format!("scenarios.{}", entry.key);
    if let Err(why) = tags::name(&entry.key) {
        report.problem(Some(entry.line), &path, why.to_string());
    }
    let known = super::SCENARIO.concat();
    let section = Section::open_advised(&entry.value, &path, &known, unknown, report)?;
    let mut reader = Reader::new(section, &path, Path::new(""), report);
    let kind = kind(&mut reader, kinds);
    let executor = executor::read(&mut reader);
    let mut time = |key| reader.parse(key, values::duration);
    let (start, graceful_stop) = (time("startTime"), time("gracefulStop"));
    let tags = tags::read(section.get("tags"), &format!("{path}.tags"), report);
    let nothing = Node {
        line: entry.line,
        value: Value::Nothing,
    };
    let options = section.get("options").unwrap_or(&nothing);
    let build = kind.and_then(|kind| Some((kind, options_of(kind, options, &path, report)?)));
    let (kind, (build, metrics)) = build?;
    Some(PlannedScenario {
        name: entry.key.clone(),
        kind: kind.name.to_owned(),
        executor: executor?,
        start: start.map_or(Duration::ZERO, |start| start.value),
        graceful_stop: graceful_stop.map_or(ScenarioConfig::GRACEFUL_STOP, |stop| stop.value),
        tags,
        demands: kind.thresholds(),
        metrics,
        build,
    })
}

/// Parses the options, and builds the scenario once, which checks the options together. Also
/// returns the scenario's own metrics.
fn options_of(
    kind: &Kind,
    options: &Node,
    path: &str,
    report: &mut Report,
) -> Option<(Build, Option<OwnMetrics>)> {
    let path = format!("{path}.options");
    let build = kind.read(options, &path, report)?;
    match build(0) {
        Ok(scenario) => {
            let metrics = scenario.metrics();
            Some((build, metrics))
        }
        Err(error) => {
            report.problem(Some(options.line), path, error.to_string());
            None
        }
    }
}

fn kind<'k>(reader: &mut Reader<'_, '_>, kinds: &'k [Kind]) -> Option<&'k Kind> {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
    let kind: Option<Located<&Kind>> = reader.parse("scenario", |text| {
        let found = kinds.iter().find(|kind| kind.name == text);
        found.ok_or_else(|| match nearest(text, &names) {
            Some(near) => format!("is not a known scenario; did you mean `{near}`?"),
            None => format!(
                "is not a known scenario; expected one of {}",
                names.join(", ")
            ),
        })
    });
    let example = names.first().copied().unwrap_or("…");
    let kind = reader.required("scenario", kind, example)?;
    Some(kind.value)
}

fn unknown(key: &str, known: &[&str]) -> String {
    match FOREIGN.iter().find(|(foreign, _)| *foreign == key) {
        Some((_, advice)) => (*advice).to_owned(),
        None => lucarne_settings::unknown(key, known),
    }
}
