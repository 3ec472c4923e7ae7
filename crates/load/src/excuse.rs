//! Checks whose failures do not count among `checks`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::scenario_config::ScenarioConfig;
use crate::threshold::Threshold;

/// The reason why the failures of a check do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Excuse {
    /// No specification demands it.
    Warning,
    /// The run allows it to fail.
    Allowed,
    /// A threshold on `checks{check:…}` judges it alone.
    OwnThreshold,
}

impl Excuse {
    /// The reason, in words that follow the name of the check.
    pub fn words(self) -> &'static str {
        match self {
            Excuse::Warning => "a warning, because no specification demands it",
            Excuse::Allowed => "allowed to fail by --allow",
            Excuse::OwnThreshold => "judged by a threshold of its own",
        }
    }
}

/// The checks of one scenario whose failures do not count, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Excuses(Arc<[(String, Excuse)]>);

impl Excuses {
    /// Those of `planned` in a run that allows the checks `allow` to fail, and that has these
    /// thresholds.
    pub(crate) fn of(planned: &ScenarioConfig, allow: &[String], thresholds: &[Threshold]) -> Self {
        let own = thresholds
            .iter()
            .filter_map(|it| it.judged_check(&planned.name));
        let own = own.map(|name| (name.to_owned(), Excuse::OwnThreshold));
        let allowed = allow.iter().map(|name| (name.clone(), Excuse::Allowed));
        let warnings = planned.scenario.warnings().iter();
        let warnings = warnings.map(|name| ((*name).to_owned(), Excuse::Warning));
        // The first one that names a check holds.
        Excuses(own.chain(allowed).chain(warnings).collect())
    }

    /// The reason why failures of this check do not count, if they do not.
    pub(crate) fn of_check(&self, name: &str) -> Option<Excuse> {
        let mut all = self.0.iter();
        all.find(|(known, _)| known == name)
            .map(|(_, excuse)| *excuse)
    }
}
