//! Iterations, and the requests that they wait for.

use std::future::Future;
use std::ops::Deref;
use std::time::{Duration, Instant};

use crate::exchange::{Exchange, Failure};
use crate::recorder::Recorder;
use crate::samples::IterationResult;
use crate::tags::Tags;

/// One iteration of one user; records like its [`Recorder`].
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
    /// In a pause of the plan's own, in which it does not wait for the target.
    pausing: bool,
    /// There was nothing to do.
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

    /// An iteration on its own, for trying out a scenario.
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

    /// A request that is about to be sent: [`Pending::until`] waits for its answer,
    /// which [`request`](Iteration::request) then records.
    pub fn pending(&self, tags: Tags, protocol: &'static str) -> Pending {
        let started = Instant::now();
        Pending {
            recorder: self.recorder.clone(),
            tags,
            protocol,
            since: match self.requested {
                true => started,
                false => self.intended,
            },
            started,
            answered: false,
        }
    }

    /// A request of this iteration. The first one takes its total from
    /// [`intended`](Iteration::intended): time that the load generator lost, or
    /// that passed while all users were busy with a slow target, is the target's.
    pub fn request(&mut self, tags: Tags, exchange: &Exchange) {
        let since = if self.requested {
            exchange.started
        } else {
            self.intended
        };
        self.requested = true;
        self.recorder.samples().request(tags, exchange, since);
    }

    /// Something other than a request went wrong. A failed request is told by its
    /// exchange's outcome and need not be told again.
    pub fn fail(&mut self, failure: Failure) {
        self.failed = true;
        self.recorder.failure(self.recorder.base(), failure);
    }

    /// Returns whether [`fail`](Iteration::fail) was called.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// It is due later than planned, because the scenario wants it so: what it
    /// waits for before its first request is nobody's latency.
    pub fn postpone(&mut self, by: Duration) {
        self.intended += by;
    }

    /// Waits as the plan wants it (think time), and not for the target: an iteration that
    /// is cut off in a pause has not failed.
    pub async fn pause(&mut self, time: Duration) {
        self.pause_until(Instant::now() + time).await;
    }

    /// The same, until `end`.
    pub async fn pause_until(&mut self, end: Instant) {
        self.pausing = true;
        tokio::time::sleep_until(end.into()).await;
        self.pausing = false;
    }

    /// There was nothing to do: this iteration says nothing about the target.
    pub fn idle(&mut self) {
        self.idle = true;
    }

    /// Returns whether it is in a pause of the plan's own.
    pub(crate) fn is_pausing(&self) -> bool {
        self.pausing
    }

    /// Returns whether there was nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle
    }

    /// The time at which it was due.
    pub fn intended(&self) -> Instant {
        self.intended
    }

    /// The time at which it was begun; not before it was due.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Counts the scenario's iterations over all workers, from 0. By arrival
    /// rate the numbers are those of the arrivals, so dropped ones are missing.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The number of the user.
    pub fn user(&self) -> u64 {
        self.user
    }

    /// Its recorder.
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

/// The kind of failure of a request that was still open when its iteration was cut off.
pub(crate) const UNANSWERED: &str = "unanswered";

/// A request under way. Dropped before its answer came, as when the run is cut off at the
/// end of `gracefulStop`, it is recorded as one that failed, and that took at least so
/// long: a target that has stopped answering must not be flattered by what is left out.
#[derive(Debug)]
pub struct Pending {
    recorder: Recorder,
    tags: Tags,
    protocol: &'static str,
    /// From when its duration counts.
    since: Instant,
    started: Instant,
    answered: bool,
}

impl Pending {
    /// Waits for the answer.
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
        let detail = format!("no answer for {waited:.1?}, when the run was cut off");
        let exchange = Exchange {
            started: self.started,
            finished,
            connect: None,
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
