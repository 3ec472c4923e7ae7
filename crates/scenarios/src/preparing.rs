//! Retries of the requests that a scenario sends before the load begins.
//!
//! These requests change nothing, and a single failure must not end a run before the load begins:
//! the target may be restarting.

use std::time::{Duration, Instant};

use lucarne_load::Failure;
use lucarne_load::http::{Client, Request, Response, kind};

use crate::retry_after::retry_after;

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(250);
/// Time before the next attempt of a monitor if the response has no valid Retry-After.
const PUT_OFF: Duration = Duration::from_secs(1);

/// The kinds of failures that are retried, and the time limit of the retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retries {
    /// A reset connection and the status 503, for five seconds.
    Brief,
    /// Every failure to get a response, for thirty seconds: the target may be restarted.
    OverRestarts,
    /// A reset connection and the statuses 429 and 503, for five seconds. A monitor waits as long
    /// as Retry-After requires, or gives up.
    OfMonitor,
}

impl Retries {
    /// Returns the retries for a target; `expected` states whether the target may be restarted
    /// during the run.
    pub(crate) fn over_restarts(expected: bool) -> Self {
        if expected {
            Retries::OverRestarts
        } else {
            Retries::Brief
        }
    }

    /// Returns whether a response with this status counts as no response.
    pub(crate) fn counts_as_away(self, status: u16) -> bool {
        self == Retries::OfMonitor && matches!(status, 429 | 502..=504)
    }

    fn bound(self) -> Duration {
        match self {
            Retries::Brief | Retries::OfMonitor => Duration::from_secs(5),
            Retries::OverRestarts => Duration::from_secs(30),
        }
    }

    /// Starts the time limit of these retries.
    pub(crate) fn begin(self) -> Attempts {
        Attempts {
            retries: self,
            end: Instant::now() + self.bound(),
        }
    }
}

/// The attempts at one request.
#[derive(Debug)]
pub(crate) struct Attempts {
    retries: Retries,
    end: Instant,
}

impl Attempts {
    /// Waits for the time of the next attempt. Returns `false` if `failure` is final.
    pub(crate) async fn again_after(&self, failure: &Failure) -> bool {
        let is_passing = failure.kind == kind::RESET || self.retries == Retries::OverRestarts;
        is_passing && self.again_in(PAUSE).await
    }

    /// Waits for the time of the next attempt after a complete response. Returns `false` if the
    /// response is final.
    async fn again_after_response(&self, response: &Response) -> bool {
        match (self.retries, response.status) {
            (Retries::OfMonitor, 429 | 503) => {
                let pause = retry_after(response).unwrap_or(PUT_OFF).max(PAUSE);
                Instant::now() + pause < self.end && self.again_in(pause).await
            }
            // The target is starting.
            (_, 503) => self.again_in(PAUSE).await,
            _ => false,
        }
    }

    /// Waits for the time of the next attempt. Returns `false` if the time limit is over.
    async fn again_in(&self, pause: Duration) -> bool {
        if Instant::now() >= self.end {
            return false;
        }
        tokio::time::sleep(pause).await;
        true
    }
}

/// Sends a request that changes nothing, with these retries, and returns the last response.
pub(crate) async fn send(client: &mut Client, request: &Request<'_>, retries: Retries) -> Response {
    let attempts = retries.begin();
    loop {
        let response = client.send(request).await;
        let again = match &response.exchange.outcome {
            Err(_) if response.is_too_long => false,
            Err(failure) => attempts.again_after(failure).await,
            Ok(()) => attempts.again_after_response(&response).await,
        };
        if !again {
            return response;
        }
    }
}
