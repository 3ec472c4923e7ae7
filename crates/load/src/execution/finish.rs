//! Phase after the load: background tasks end, and scenarios audit.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};

use super::Execution;
use super::scenario_state::StopMode;
use crate::note::Note;
use crate::samples::SampleBuffer;

/// Result of the phase after the load.
pub(super) struct Finish {
    pub(super) notes: Vec<Note>,
    /// True if the phase exceeded its time, or panicked.
    pub(super) failed: bool,
}

impl Execution {
    /// Waits for background tasks, then lets the scenarios audit.
    pub(super) async fn finish(
        &self,
        mut beside: JoinSet<()>,
        shard: &Arc<SampleBuffer>,
    ) -> Finish {
        let ended = async {
            let (mut notes, mut failed) = (Vec::new(), false);
            let mut panicked = |panic: JoinError| {
                failed = true;
                (usize::MAX, vec![cut_short(&panic.to_string())])
            };
            while let Some(ended) = beside.join_next().await {
                notes.extend(ended.err().map(&mut panicked));
            }
            let mut finishing = JoinSet::new();
            for (index, state) in self.run_state.scenarios.iter().enumerate() {
                let recorder = self.recorder(state, shard);
                let scenario = state.config.scenario.clone();
                finishing.spawn(async move { (index, scenario.finish(recorder).await) });
            }
            while let Some(finished) = finishing.join_next().await {
                notes.push(finished.unwrap_or_else(&mut panicked));
            }
            notes.sort_by_key(|(index, _)| *index);
            let notes = notes.into_iter().flat_map(|(_, notes)| notes).collect();
            Finish { notes, failed }
        };
        let cut_off = |why: &str, failed| Finish {
            notes: vec![cut_short(why)],
            failed,
        };
        let grace = self.grace();
        tokio::select! {
            finish = ended => finish,
            () = self.run_state.stopped(StopMode::Now) => cut_off("stopped before the end", false),
            // Limits the time of all work after the load.
            () = tokio::time::sleep(grace) => {
                let what = format!("the work after the load was cut off after {grace:.0?}");
                cut_off(&what, true)
            }
        }
    }

    /// Returns the longest time that the phase after the load may take.
    fn grace(&self) -> Duration {
        let scenarios = self.run_state.scenarios.iter();
        let graces = scenarios.map(|state| state.config.scenario.grace());
        graces.max().unwrap_or_default()
    }
}

/// Returns a note about unfinished work.
pub(super) fn cut_short(why: &str) -> Note {
    Note {
        title: Note::NOT_FINISHED.into(),
        lines: vec![why.into()],
    }
}
