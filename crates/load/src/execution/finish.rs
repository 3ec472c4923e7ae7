//! Phase after the load: background tasks end, and scenarios audit.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};

use super::Execution;
use super::scenario_state::StopMode;
use crate::note::Note;
use crate::samples::SampleBuffer;

/// Limit of the teardown.
const TEARDOWN: Duration = Duration::from_secs(60);

/// Limit of the teardown after a stop that cuts off running work.
const STOPPED_TEARDOWN: Duration = Duration::from_secs(3);

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

    /// Tears down all scenarios that were set up, also after a stop. Returns a note about failures.
    pub(super) async fn tear_down(&self, shard: &Arc<SampleBuffer>) -> Option<Note> {
        let mut tearing_down = JoinSet::new();
        for state in &self.run_state.scenarios {
            if state.is_set_up.load(Relaxed) {
                let (state, recorder) = (state.clone(), self.recorder(state, shard));
                tearing_down.spawn(async move { state.config.scenario.tear_down(recorder).await });
            }
        }
        let mut lines = Vec::new();
        let all = async {
            while let Some(result) = tearing_down.join_next().await {
                lines.extend(match result {
                    Ok(result) => result.err().map(|failure| failure.to_string()),
                    Err(panic) => Some(panic.to_string()),
                });
            }
        };
        let cut_off = async {
            self.run_state.stopped(StopMode::Now).await;
            // Leaves the process time for its reports.
            tokio::time::sleep(STOPPED_TEARDOWN).await;
        };
        tokio::select! {
            () = all => {}
            () = cut_off => lines.push(format!("it was cut off after {STOPPED_TEARDOWN:.0?}")),
            // Limits the time of all requests together.
            () = tokio::time::sleep(TEARDOWN) => {
                lines.push(format!("it was cut off after {TEARDOWN:.0?}"));
            }
        }
        (!lines.is_empty()).then(|| Note {
            title: Note::NOT_TORN_DOWN.into(),
            lines,
        })
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
