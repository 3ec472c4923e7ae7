//! Iterations and their pending requests.

use std::future::Future;
use std::ops::Deref;
use std::time::{Duration, Instant};

use crate::exchange::{Exchange, Failure};
use crate::recorder::Recorder;
use crate::samples::IterationResult;
use crate::tags::Tags;

/// An iteration of one user; records samples like its [`Recorder`].
#[derive(Debug)]
pub struct Iteration {
    recorder: Recorder,
    intended: Instant,
    started: Instant,
    start_delay: Option<Duration>,
    number: u64,
    user: u64,
    requested: bool,
    failed: bool,
    /// Whether the iteration is in a pause of the plan, and so does not wait for the target.
    pausing: bool,
    /// Whether [`idle`](Iteration::idle) was called.
    idle: bool,
}

impl Iteration {
    pub(crate) fn new(recorder: Recorder, user: u64) -> Self {
        let now = Instant::now();
        Iteration {
            recorder,
            intended: now,
            started: now,
            start_delay: None,
            number: 0,
            user,
            requested: false,
            failed: false,
            pausing: false,
            idle: false,
        }
    }

    /// Creates an iteration outside a run, for trying out a scenario.
    pub fn detached(recorder: &Recorder, number: u64) -> Self {
        Iteration {
            number,
            ..Iteration::new(recorder.clone(), 0)
        }
    }

    pub(crate) fn begin(
        &mut self,
        number: u64,
        intended: Instant,
        started: Instant,
        start_delay: Option<Duration>,
    ) {
        (self.number, self.intended, self.started) = (number, intended, started);
        (self.requested, self.failed) = (false, false);
        (self.pausing, self.idle) = (false, false);
        self.start_delay = start_delay;
    }

    pub(crate) fn end(&self, now: Instant) {
        self.recorder.iterated(&IterationResult {
            duration: now.saturating_duration_since(self.intended),
            start_delay: self.start_delay,
            failed: self.failed,
        });
    }

    /// Starts a request. [`Pending::until`] waits for its response, which
    /// [`request`](Iteration::request) then records.
    pub fn pending(&self, tags: Tags, protocol: &'static str) -> Pending {
        let started = Instant::now();
        Pending {
            recorder: self.recorder.clone(),
            tags,
            protocol,
            since: if self.requested {
                started
            } else {
                self.intended
            },
            started,
            answered: false,
        }
    }

    /// Records a request of this iteration. The duration of the first request counts from
    /// [`intended`](Iteration::intended), so it includes time lost by the load generator or while
    /// all users were busy with a slow target.
    pub fn request(&mut self, tags: Tags, exchange: &Exchange) {
        let since = if self.requested {
            exchange.started
        } else {
            self.intended
        };
        self.requested = true;
        self.recorder.samples().request(tags, exchange, since);
    }

    /// Records a failure outside requests. The outcome of a failed request's exchange is recorded
    /// with the request.
    pub fn fail(&mut self, failure: Failure) {
        self.failed = true;
        self.recorder.failure(self.recorder.base(), failure);
    }

    /// Returns whether [`fail`](Iteration::fail) was called.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Postpones the due time by a wait that the scenario requires before the first request. The
    /// wait does not count as latency.
    pub fn postpone(&mut self, by: Duration) {
        self.intended += by;
    }

    /// Pauses as the plan requires (think time). An iteration that is cut off in a pause has not
    /// failed.
    pub async fn pause(&mut self, time: Duration) {
        self.pause_until(Instant::now() + time).await;
    }

    /// Pauses until `end`.
    pub async fn pause_until(&mut self, end: Instant) {
        self.pausing = true;
        tokio::time::sleep_until(end.into()).await;
        self.pausing = false;
    }

    /// Marks the iteration as idle: it had nothing to do, and has no result about the target.
    pub fn idle(&mut self) {
        self.idle = true;
    }

    /// Returns whether the iteration is in a pause of the plan.
    pub(crate) fn is_pausing(&self) -> bool {
        self.pausing
    }

    /// Returns whether [`idle`](Iteration::idle) was called.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle
    }

    /// Returns the due time.
    pub fn intended(&self) -> Instant {
        self.intended
    }

    /// Returns the start time, which is not before the due time.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Returns the number of the iteration in its scenario over all workers, from 0. With an
    /// arrival rate, numbers count arrivals: the numbers of dropped arrivals are missing.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of the user in its scenario over all workers, from 0.
    pub fn user(&self) -> u64 {
        self.user
    }

    /// Returns the recorder of this iteration, which a background task can clone.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }
}

impl Deref for Iteration {
    type Target = Recorder;

    fn deref(&self) -> &Recorder {
        &self.recorder
    }
}

/// Kind of the failure of a request that was open when its iteration was cut off.
pub(crate) const UNANSWERED: &str = "unanswered";

/// A request in progress. If the value is dropped before the response, for example at the end of
/// `gracefulStop`, the request counts as failed, with its duration so far. Omitting the request
/// would hide that the target stopped responding.
#[derive(Debug)]
pub struct Pending {
    recorder: Recorder,
    tags: Tags,
    protocol: &'static str,
    /// Start of the measured duration.
    since: Instant,
    started: Instant,
    answered: bool,
}

impl Pending {
    /// Waits for the response.
    pub async fn until<T>(mut self, answer: impl Future<Output = T>) -> T {
        let answer = answer.await;
        self.answered = true;
        answer
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let finished = Instant::now();
        let waited = finished.saturating_duration_since(self.started);
        let detail = format!("no response for {waited:.1?}, when the run was cut off");
        let exchange = Exchange {
            started: self.started,
            finished,
            connect: None,
            family: None,
            tls: None,
            sending: None,
            first_byte: None,
            body: None,
            status: 0,
            protocol: self.protocol,
            bytes_in: 0,
            bytes_out: 0,
            body_in: 0,
            body_out: 0,
            unannounced_end: false,
            resent: None,
            outcome: Err(Failure::new(UNANSWERED, detail)),
        };
        let mut samples = self.recorder.samples();
        samples.request(self.tags, &exchange, self.since);
    }
}
