//! The work that is done under load.

use std::time::Duration;

use async_trait::async_trait;

use crate::iteration::Iteration;
use crate::note::Note;
use crate::recorder::Recorder;
use crate::stop::Stop;

/// The work that is done under load. One value per scenario of a plan, shared by its VUs.
#[async_trait]
pub trait Scenario: Send + Sync + 'static {
    /// Once, before the first arrival: reach the target, mint, connect.
    ///
    /// # Errors
    ///
    /// An error ends the run before it began, with exit code 110 (the target
    /// cannot be reached), 104 (the configuration is wrong) or 99 (the target is
    /// not as it must be: a failed check, in a summary like that of any run).
    async fn prepare(&self) -> Result<(), PrepareError>;

    /// A new virtual user (VU), as in k6: it owns its connections and its random
    /// generator, and runs one iteration after the other, never two at a time.
    ///
    /// `recorder` is the one that the user's iterations will record with: the
    /// place to intern [`Tags`](crate::Tags). `number` counts from 0.
    fn user(&self, number: u64, recorder: &Recorder) -> Box<dyn VirtualUser>;

    /// The purpose of an iteration, as words that follow "while it waited for": every
    /// iteration that is cut off before has failed.
    fn purpose(&self) -> &'static str {
        "a response"
    }

    /// Names of checks whose failures are warnings, because no specification demands what
    /// they check: they do not count among `checks`.
    fn warnings(&self) -> &'static [&'static str] {
        &[]
    }

    /// The longest time that [`background`](Scenario::background) and
    /// [`finish`](Scenario::finish) may take together after the last iteration. What takes
    /// longer is cut off, and the run has failed.
    fn grace(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// Runs beside the load (a follower of checkpoints and the like), until
    /// `stop` is cancelled. It may still return later than that: the run waits
    /// for it before [`finish`](Scenario::finish).
    async fn background(&self, recorder: Recorder, stop: Stop) {
        let _ = (recorder, stop);
    }

    /// Resolves once the scenario has reached a goal of its own; the run then ends as
    /// if its time were over. Most have none.
    async fn reached(&self) {
        std::future::pending().await
    }

    /// After the last iteration: audits. Takes the time that it needs, and bounds
    /// it itself. What it returns is shown in the summary.
    async fn finish(&self, recorder: Recorder) -> Vec<Note> {
        let _ = recorder;
        Vec::new()
    }
}

/// A virtual user (VU) of a scenario.
#[async_trait]
pub trait VirtualUser: Send {
    /// One iteration. What went wrong is told to `iteration`.
    async fn iterate(&mut self, iteration: &mut Iteration);

    /// The run has cut off `iteration` while it waited for the target: records what of the
    /// scenario's own has failed by that.
    fn cut_off(&mut self, iteration: &mut Iteration) {
        let _ = iteration;
    }
}

/// The reasons why a scenario could not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The options make no sense, or the target is not what they say.
    #[error("{0}")]
    Configuration(String),
    /// The target does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The target answers, and a check fails.
    #[error("{check}: {detail}")]
    Faulty {
        /// The name of the check.
        check: &'static str,
        /// The finding.
        detail: String,
    },
}
