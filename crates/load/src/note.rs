//! Notes of scenarios at the end of a run.

use serde::{Deserialize, Serialize};

/// A scenario's note at the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// Headline of the note.
    pub title: String,
    /// Lines of text below the headline.
    pub lines: Vec<String>,
}

impl Note {
    /// Headline of the note about a run that could not begin.
    pub const NOT_BEGUN: &str = "The run did not begin";
    /// Headline of the note about work that was cut off or panicked.
    pub const NOT_FINISHED: &str = "Not finished";
    /// Headline of the note about a failed teardown.
    pub const NOT_TORN_DOWN: &str = "Teardown failed";

    /// Headline of the note about a run that was worse than its baseline.
    pub(crate) const WORSE: &str = "Worse than the baseline";
}
