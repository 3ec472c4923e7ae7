//! Retries of the requests that a scenario sends before the load begins.
//!
//! These requests change nothing, and a single failure must not end a run before the load begins:
//! the target may be restarting.

use std::time::{Duration, Instant};

use lucarne_load::Failure;
use lucarne_load::http::{Client, Request, Response, kind};

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// The kinds of failures that are retried, and the time limit of the retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retries {
    /// A reset connection and the status 503, for five seconds.
    Brief,
    /// Every failure to get a response, for thirty seconds: the target may be restarted.
    OverRestarts,
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

    fn bound(self) -> Duration {
        match self {
            Retries::Brief => Duration::from_secs(5),
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
        is_passing && self.again().await
    }

    /// Waits for the time of the next attempt. Returns `false` if the time limit is over.
    async fn again(&self) -> bool {
        if Instant::now() >= self.end {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
        true
    }
}

/// Sends a request that changes nothing, with these retries, and returns the last response.
pub(crate) async fn send(client: &mut Client, request: &Request<'_>, retries: Retries) -> Response {
    let attempts = retries.begin();
    loop {
        let response = client.send(request).await;
        let again = match &response.exchange.outcome {
            Err(failure) => attempts.again_after(failure).await,
            // The target is starting.
            Ok(()) if response.status == 503 => attempts.again().await,
            Ok(()) => false,
        };
        if !again {
            return response;
        }
    }
}
