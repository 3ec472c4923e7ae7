//! Failures of a run that stay after a merge.

use serde::{Deserialize, Serialize};

use super::Summary;
use crate::note::Note;

/// A failure of a run that the figures of a merged run cannot show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LastingFailure {
    /// The run did not begin.
    NotBegun,
    /// Work of the run was cut off, or panicked.
    NotFinished,
    /// The run was worse than its baseline.
    WorseThanBaseline,
}

impl Summary {
    /// Adds a lasting failure, unless the summary has it already.
    pub(crate) fn add_lasting_failure(&mut self, failure: LastingFailure) {
        let known = self.lasting_failures.get_or_insert_default();
        if !known.contains(&failure) {
            known.push(failure);
        }
    }

    /// Returns the lasting failures. Summaries of earlier versions have them as titles of notes.
    pub(super) fn known_lasting_failures(&self) -> Vec<LastingFailure> {
        match &self.lasting_failures {
            Some(failures) => failures.clone(),
            None => self.notes.iter().filter_map(of_note).collect(),
        }
    }
}

fn of_note(note: &Note) -> Option<LastingFailure> {
    match note.title.as_str() {
        Note::NOT_BEGUN => Some(LastingFailure::NotBegun),
        Note::NOT_FINISHED => Some(LastingFailure::NotFinished),
        Note::WORSE => Some(LastingFailure::WorseThanBaseline),
        _ => None,
    }
}
