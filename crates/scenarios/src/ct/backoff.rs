//! Waits of users between two requests to a log.

use std::time::Duration;

use lucarne_load::http::Response;
use lucarne_load::{Iteration, Tags};

use super::checks::{self, Finding};
use crate::retry_after::retry_after;

/// Wait of a user before its next request to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backoff {
    /// The log is unavailable, which the run expects.
    Outage,
    /// The log throttled the request, with the wait in Retry-After if it is valid.
    Throttled(Option<Duration>),
}

/// Shortest wait.
const PAUSE: Duration = Duration::from_millis(200);

impl Backoff {
    /// Returns the wait after a response that throttles, and records the check of its Retry-After.
    pub(super) fn throttled(tags: Tags, response: &Response, iteration: &mut Iteration) -> Self {
        let wait = retry_after(response);
        match &wait {
            Ok(_) => iteration.recorder().passed(tags, checks::RETRY_AFTER),
            Err(problem) => {
                let detail = format!("status {}: {problem}", response.status);
                Finding::new(checks::RETRY_AFTER, detail).fail(tags, iteration);
            }
        }
        Backoff::Throttled(wait.ok())
    }

    pub(super) async fn wait(self, iteration: &mut Iteration) {
        match self {
            // The user still waits for the log: this is not a pause of the plan.
            Backoff::Outage => tokio::time::sleep(PAUSE).await,
            Backoff::Throttled(wait) => {
                iteration
                    .throttled(PAUSE.max(wait.unwrap_or_default()))
                    .await
            }
        }
    }
}
