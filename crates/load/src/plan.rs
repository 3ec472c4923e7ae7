//! Plans: YAML files that define load and thresholds.
//!
//! The parser is strict: it suggests the nearest known key for an unknown key, and reports all
//! errors at once with their lines. Keys that k6 also has have k6's names.

mod arithmetic;
mod executor;
mod kind;
mod quick;
mod scenario;
mod tags;
mod thresholds;

use std::path::Path;

use lucarne_settings::{
    Node, Reader, Report, Section, Value, environment, read_text, tree, values,
};

pub use executor::EXECUTORS;
pub use kind::{Build, Kind};
pub use scenario::PlannedScenario;
pub use tags::{TagError, tag};

use crate::{PrepareError, Run, Thresholds};

/// Keys at the top of a plan.
pub const TOP: &[&str] = &[
    "name",
    "description",
    "scenarios",
    "thresholds",
    "tags",
    "threads",
    "seed",
];

/// Keys of a scenario: common keys, and keys of executors.
pub const SCENARIO: [&[&str]; 2] = [scenario::COMMON, executor::KEYS];

/// Limit of worker threads of a run.
pub const MAX_THREADS: u64 = 1024;

/// A valid plan.
#[derive(Debug, Default)]
pub struct Plan {
    /// Name of the run.
    pub name: String,
    /// Purpose of the run.
    pub description: String,
    /// Scenarios, which run concurrently or sequentially depending on their starts.
    pub scenarios: Vec<PlannedScenario>,
    /// Thresholds of the run.
    pub thresholds: Thresholds,
    /// Number of worker threads; one by default.
    pub threads: Option<usize>,
    /// Seed of the random numbers, for repeatable runs.
    pub seed: Option<u64>,
}

impl Plan {
    /// Reads the file at `path` with scenarios of the given `kinds`. Variables come from the
    /// environment of the process.
    pub fn read(path: &Path, kinds: &[Kind]) -> (Option<Plan>, Report) {
        Self::read_with(path, kinds, &|name| std::env::var(name).ok())
    }

    /// Reads the file at `path`, with the values of variables that `lookup` returns.
    pub fn read_with(
        path: &Path,
        kinds: &[Kind],
        lookup: &impl Fn(&str) -> Option<String>,
    ) -> (Option<Plan>, Report) {
        let mut report = Report::on(Some(path));
        let plan = match read_text(path) {
            Ok(yaml) => Plan::parse(&yaml, kinds, lookup, &mut report),
            Err(error) => {
                report.problem(None, "", format!("cannot be read: {error}"));
                None
            }
        };
        (plan, report)
    }

    /// Parses `yaml`; `lookup` returns environment variables. Returns `None` if there is any error.
    pub fn parse(
        yaml: &str,
        kinds: &[Kind],
        lookup: &impl Fn(&str) -> Option<String>,
        report: &mut Report,
    ) -> Option<Plan> {
        let mut root = match tree::parse(yaml) {
            Ok(root) => root,
            Err(error) => {
                let message = format!("is not YAML: {}", error.message);
                report.problem(Some(error.line), "", message);
                return None;
            }
        };
        environment::substitute(&mut root, lookup, report);
        let top = Section::open(&root, "", TOP, report)?;
        let mut reader = Reader::new(top, "", Path::new(""), report);
        let mut text = |key| reader.text(key).map(|text| text.value.to_owned());
        let (name, description) = (text("name"), text("description"));
        let threads = reader.parse("threads", values::number(1, MAX_THREADS, "threads"));
        let seed = reader.parse("seed", values::number(0, u64::MAX, ""));
        let shared = tags::read(top.get("tags"), "tags", report);
        let mut scenarios = scenarios(&top, kinds, report);
        for scenario in &mut scenarios {
            scenario.add_tags(&shared);
        }
        let planned = match top.get("scenarios").map(|node| &node.value) {
            Some(Value::Map(entries)) if entries.len() == scenarios.len() => Some(&*scenarios),
            _ => None,
        };
        let thresholds = thresholds::read(top.get("thresholds"), planned, report);
        report.problems().is_empty().then(|| Plan {
            name: name.unwrap_or_default(),
            description: description.unwrap_or_default(),
            scenarios,
            thresholds,
            threads: threads.map(|threads| threads.value as usize),
            seed: seed.map(|seed| seed.value),
        })
    }

    /// Builds the scenarios with `seed` for their random choices, and combines them into a run.
    ///
    /// # Errors
    /// If a scenario cannot be built from its options; the message begins with the name of the
    /// scenario.
    pub fn into_run(self, seed: u64) -> Result<Run, PrepareError> {
        let planned = self.scenarios.into_iter().enumerate();
        let planned = planned.map(|(index, scenario)| {
            // Scenarios of the same kind must not send the same requests.
            scenario.into_config(seed.wrapping_add(index as u64))
        });
        Ok(Run {
            name: self.name,
            description: self.description,
            scenarios: planned.collect::<Result<_, _>>()?,
            thresholds: self.thresholds,
            workers: self.threads.unwrap_or(1),
            ..Run::default()
        })
    }
}

/// Parses the scenarios under `scenarios:`.
fn scenarios(top: &Section<'_>, kinds: &[Kind], report: &mut Report) -> Vec<PlannedScenario> {
    let entries = match top.get("scenarios") {
        Some(Node {
            line,
            value: Value::Map(entries),
        }) if entries.is_empty() => {
            let message = "must have at least one scenario, but the map is empty";
            report.problem(Some(*line), "scenarios", message);
            return Vec::new();
        }
        Some(Node {
            value: Value::Map(entries),
            ..
        }) => entries,
        Some(node) => {
            let message = format!(
                "must be a map from names to scenarios, but is {}",
                node.value.kind()
            );
            report.problem(Some(node.line), "scenarios", message);
            return Vec::new();
        }
        None => {
            let message = "is missing: a map from names to scenarios";
            report.problem(None, "scenarios", message);
            return Vec::new();
        }
    };
    for (index, entry) in entries.iter().enumerate() {
        if let Some(first) = entries[..index].iter().find(|e| e.key == entry.key) {
            let key = format!("scenarios.{}", entry.key);
            let message = format!("is given twice, first on line {}", first.line);
            report.problem(Some(entry.line), key, message);
        }
    }
    let read = |entry| scenario::read(entry, kinds, report);
    entries.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests;
