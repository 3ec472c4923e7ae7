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
