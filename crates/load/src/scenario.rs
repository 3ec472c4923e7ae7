//! Work under load.

use std::time::Duration;

use async_trait::async_trait;

use crate::exchange::Failure;
use crate::http::{EndpointError, kind};
use crate::iteration::Iteration;
use crate::note::Note;
use crate::part::Part;
use crate::recorder::Recorder;
use crate::stop::Stop;

/// Names of the metrics that a scenario records in addition to the common metrics, each with its
/// kind (`"trend"`, `"rate"`, `"counter"` or `"gauge"`).
pub type OwnMetrics = &'static [(&'static str, &'static str)];

/// Work under load. A plan has one value per scenario, which its VUs share.
#[async_trait]
pub trait Scenario: Send + Sync + 'static {
    /// Prepares the scenario once before the first arrival: contacts the target, creates
    /// certificates, connects.
    ///
    /// # Errors
    ///
    /// An error ends the run before its start with exit code 110 (the target is unreachable), 104
    /// (the configuration is invalid) or 99 (the target fails a check, which is reported in a
    /// normal summary).
    async fn prepare(&self) -> Result<(), PrepareError>;

    /// Changes the target once before the load, after all scenarios are prepared; most scenarios
    /// need no change.
    ///
    /// # Errors
    ///
    /// An error ends the run before the load, as in [`prepare`](Scenario::prepare).
    async fn set_up(&self, recorder: Recorder) -> Result<(), PrepareError> {
        let _ = recorder;
        Ok(())
    }

    /// Reverses [`set_up`](Scenario::set_up) after all other work, also if the run was stopped, but
    /// not if `set_up` failed.
    ///
    /// # Errors
    ///
    /// An error fails the run.
    async fn tear_down(&self, recorder: Recorder) -> Result<(), Failure> {
        let _ = recorder;
        Ok(())
    }

    /// Creates a virtual user (VU), as in k6. The user owns its connections and its random
    /// generator, and executes one iteration at a time.
    ///
    /// The user's iterations record with `recorder`; intern [`Tags`](crate::Tags) here. `number`
    /// counts from 0.
    fn user(&self, number: u64, recorder: &Recorder) -> Box<dyn VirtualUser>;

    /// Prepares the scenario for a part of a run, before [`prepare`](Scenario::prepare). The engine
    /// divides arrivals, users and iterations; the scenario divides its own sequences.
    fn divide(&self, part: Part) {
        let _ = part;
    }

    /// Describes the result of an iteration; the text follows "while it waited for". An iteration
    /// without this result has failed if the run cuts it off.
    fn purpose(&self) -> &'static str {
        "a response"
    }

    /// Returns the names of checks that no specification requires. Failures of these checks are
    /// warnings and do not count among `checks`.
    fn warnings(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the names of all checks of the scenario, so that `--allow` with another name is
    /// refused before the run. `None` means that any name is possible.
    fn checks(&self) -> Option<Vec<&'static str>> {
        None
    }

    /// Returns all metrics that the scenario itself records, so that a threshold on another metric
    /// is refused before the run. `None` means that any metric is possible.
    fn metrics(&self) -> Option<OwnMetrics> {
        None
    }

    /// Returns the longest time of [`background`](Scenario::background) and
    /// [`finish`](Scenario::finish) together after the last iteration. Work beyond this time is cut
    /// off, and the run fails.
    fn grace(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// Runs during the load until `stop` is cancelled, for example to poll checkpoints. The future
    /// may complete later: the run waits for it before [`finish`](Scenario::finish).
    async fn background(&self, recorder: Recorder, stop: Stop) {
        let _ = (recorder, stop);
    }

    /// Completes when the scenario has reached its goal. The run then ends early. Most scenarios
    /// have no goal.
    ///
    /// # Errors
    ///
    /// An error ends the run, too, and fails it: the scenario cannot offer its load.
    async fn reached(&self) -> Result<(), Failure> {
        std::future::pending().await
    }

    /// Audits the target after the last iteration, with its own time limits. The summary shows the
    /// returned notes.
    async fn finish(&self, recorder: Recorder) -> Vec<Note> {
        let _ = recorder;
        Vec::new()
    }
}

/// A virtual user (VU) of a scenario.
#[async_trait]
pub trait VirtualUser: Send {
    /// Executes one iteration. Failures are recorded with `iteration`.
    async fn iterate(&mut self, iteration: &mut Iteration);

    /// Records failures of the scenario's own metrics after the run has cut off `iteration` while
    /// it waited for the target.
    fn cut_off(&mut self, iteration: &mut Iteration) {
        let _ = iteration;
    }
}

/// Reasons why a scenario could not begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The options are invalid, or do not match the target.
    #[error("{0}")]
    Configuration(String),
    /// The target does not respond.
    #[error("{0}")]
    Unreachable(String),
    /// The target responds, but fails a check.
    #[error("{check}: {detail}")]
    Faulty {
        /// Name of the check.
        check: &'static str,
        /// Description of the failure.
        detail: String,
    },
}

/// Check of a response that arrived before the run.
const VALID_RESPONSE: &str = "valid HTTP response";

impl From<EndpointError> for PrepareError {
    fn from(error: EndpointError) -> Self {
        match error {
            EndpointError::Dns { .. } => PrepareError::Unreachable(error.to_string()),
            error => PrepareError::Configuration(error.to_string()),
        }
    }
}

impl PrepareError {
    /// Returns the error of a request before the run that has no usable response. `target` names
    /// the server.
    pub fn of_request(target: &str, failure: &Failure) -> Self {
        let detail = format!("{target}: {}", failure.detail);
        if failure.kind == kind::PROTOCOL {
            PrepareError::Faulty {
                check: VALID_RESPONSE,
                detail,
            }
        } else {
            PrepareError::Unreachable(detail)
        }
    }
}
