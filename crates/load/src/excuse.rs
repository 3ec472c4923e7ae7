//! Checks whose failures do not count among `checks`.

use std::sync::Arc;

use lucarne_settings::nearest;
use serde::{Deserialize, Serialize};

use crate::run::MAY_BE_ALLOWED;
use crate::scenario_config::ScenarioConfig;
use crate::threshold::Threshold;

/// Reasons why the failures of a check do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Excuse {
    /// No specification requires the check.
    Warning,
    /// The run permits failures of the check (`--allow`).
    Allowed,
    /// A separate threshold on `checks{check:…}` judges the check.
    OwnThreshold,
}

impl Excuse {
    /// Describes the reason; the text follows the name of the check.
    pub fn words(self) -> &'static str {
        match self {
            Excuse::Warning => "a warning, because no specification requires it",
            Excuse::Allowed => "allowed to fail by --allow",
            Excuse::OwnThreshold => "judged by a separate threshold",
        }
    }
}

/// A check in `--allow` that no scenario of the run has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--allow \"{name}\": no scenario has this check{}", advice(.near.as_deref(), .known))]
pub struct UnknownCheck {
    /// Name in `--allow`.
    pub name: String,
    /// Most similar check of the run.
    pub near: Option<String>,
    /// All checks of the run.
    pub known: String,
}

fn advice(near: Option<&str>, known: &str) -> String {
    let did_you_mean = near.map(|near| format!("; did you mean `{near}`?"));
    match (did_you_mean, known) {
        (_, "") => "; the run has no checks".to_owned(),
        (Some(question), _) => format!("{question} The checks are {known}"),
        (None, _) => format!("; the checks are {known}"),
    }
}

/// Checks that each name in `allow` is a check of one of the scenarios, or a default threshold. A
/// scenario that does not list its checks may have any check.
pub(crate) fn known(allow: &[String], scenarios: &[ScenarioConfig]) -> Result<(), UnknownCheck> {
    let mut names = Vec::new();
    for planned in scenarios {
        match planned.scenario.checks() {
            Some(checks) => names.extend(checks),
            None => return Ok(()),
        }
    }
    names.sort_unstable();
    names.dedup();
    let all = [names.as_slice(), &MAY_BE_ALLOWED].concat();
    match allow.iter().find(|name| !all.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(UnknownCheck {
            name: name.clone(),
            near: nearest(name, &all).map(str::to_owned),
            known: names.join(", "),
        }),
    }
}

/// Checks of one scenario whose failures do not count, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Excuses(Arc<[(String, Excuse)]>);

impl Excuses {
    /// Collects the excuses of a scenario: its own `warnings`, the checks in `allow`, and the
    /// checks that have a threshold of their own.
    pub(crate) fn of(
        scenario: &str,
        warnings: &[&str],
        allow: &[String],
        thresholds: &[Threshold],
    ) -> Self {
        let own = thresholds.iter().filter_map(|it| it.judged_check(scenario));
        let own = own.map(|name| (name.to_owned(), Excuse::OwnThreshold));
        let allowed = allow.iter().map(|name| (name.clone(), Excuse::Allowed));
        let warnings = warnings
            .iter()
            .map(|name| ((*name).to_owned(), Excuse::Warning));
        // The first excuse of a check applies.
        Excuses(own.chain(allowed).chain(warnings).collect())
    }

    /// Returns the reason why failures of this check do not count; `None` if they count.
    pub(crate) fn of_check(&self, name: &str) -> Option<Excuse> {
        let mut all = self.0.iter();
        all.find(|(known, _)| known == name)
            .map(|(_, excuse)| *excuse)
    }
}
