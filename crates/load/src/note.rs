//! Notes of scenarios at the end of a run.

use serde::{Deserialize, Serialize};

/// Something that a scenario has to say at the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// A headline.
    pub title: String,
    /// The text below it, line by line.
    pub lines: Vec<String>,
}
