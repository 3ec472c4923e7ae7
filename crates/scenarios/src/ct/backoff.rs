//! Waits of users between two requests to a log.

use std::time::Duration;

use lucarne_load::Iteration;

/// Wait of a user before its next request to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backoff {
    /// The log is unavailable, which the run expects.
    Outage,
    /// The log throttled the request, with the wait in Retry-After if it is valid.
    Throttled(Option<Duration>),
}

/// Wait if the log states none.
const PAUSE: Duration = Duration::from_millis(200);

impl Backoff {
    pub(super) async fn wait(self, iteration: &mut Iteration) {
        match self {
            // The user still waits for the log: this is not a pause of the plan.
            Backoff::Outage => tokio::time::sleep(PAUSE).await,
            Backoff::Throttled(wait) => iteration.throttled(wait.unwrap_or(PAUSE)).await,
        }
    }
}
