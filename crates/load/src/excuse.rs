//! Checks whose failures do not count among `checks`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

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
