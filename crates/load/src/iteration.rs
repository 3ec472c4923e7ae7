//! Iterations and their pending requests.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::exchange::{Exchange, Failure};
use crate::recorder::Recorder;
use crate::samples::IterationResult;
use crate::tags::Tags;
use crate::user_time::{Pause, UserClock, UserTime};

/// An iteration of one user; records samples like its [`Recorder`].
#[derive(Debug)]
pub struct Iteration {
    recorder: Recorder,
    intended: Instant,
    started: Instant,
    start_delay: Option<Duration>,
    number: u64,
    user: u64,
    /// Whether a request was started, even if the scenario does not record it.
    asked: AtomicBool,
    requested: bool,
    failed: bool,
    /// Whether [`idle`](Iteration::idle) was called.
    idle: bool,
    clock: UserClock,
}

impl Iteration {
    pub(crate) fn new(recorder: Recorder, user: u64, pausing: Arc<AtomicU64>) -> Self {
        let now = Instant::now();
        Iteration {
            recorder,
            intended: now,
            started: now,
            start_delay: None,
            number: 0,
            user,
            asked: AtomicBool::new(false),
            requested: false,
            failed: false,
            idle: false,
            clock: UserClock::new(pausing),
        }
    }

    /// Creates an iteration outside a run, for trying out a scenario.
    pub fn detached(recorder: &Recorder, number: u64) -> Self {
        Iteration {
            number,
            ..Iteration::new(recorder.clone(), 0, Arc::default())
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
        self.asked = AtomicBool::new(false);
        self.idle = false;
        self.start_delay = start_delay;
        self.clock.begin(started);
    }

    /// Records the end of the iteration.
    pub(crate) fn end(&self, now: Instant) {
        self.record(now, !self.requested && !self.asked.load(Relaxed));
    }

    /// Records that the run cut the iteration off. `longest_response` is the longest time to a
    /// response of the scenario.
    pub(crate) fn end_cut_off(&mut self, now: Instant, longest_response: Duration) {
        self.clock.cut_off(now, longest_response);
        self.record(now, false);
    }

    /// Records the iteration; `answered` states that the iteration itself is a result of the
    /// target, although it has no requests.
    fn record(&self, now: Instant, answered: bool) {
        self.recorder.iterated(&IterationResult {
            duration: now.saturating_duration_since(self.intended),
            start_delay: self.start_delay,
            failed: self.failed,
            answered: answered && !self.idle,
            time: if self.idle {
                UserTime::default()
            } else {
                self.clock.time(now)
            },
        });
    }

    /// Starts a request. [`Pending::until`] waits for its response, which
    /// [`request`](Iteration::request) then records.
    pub fn pending(&self, tags: Tags, protocol: &'static str) -> Pending {
        let started = Instant::now();
        self.asked.store(true, Relaxed);
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
        self.clock.request(exchange);
        let mut samples = self.recorder.samples();
        samples.request(tags, exchange, since);
        if exchange.is_answered() {
            samples.answered(tags);
        }
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
        self.wait(Pause::Plan, end).await;
    }

    /// Waits because the target requested it (Retry-After). The wait counts in
    /// `vu_time_throttled`. An iteration that is cut off in this wait has not failed.
    pub async fn throttled(&mut self, time: Duration) {
        self.throttled_until(Instant::now() + time).await;
    }

    /// Waits until `end` because the target requested it.
    pub async fn throttled_until(&mut self, end: Instant) {
        self.wait(Pause::Throttled, end).await;
    }

    async fn wait(&mut self, why: Pause, end: Instant) {
        self.clock.pause(why, Instant::now());
        tokio::time::sleep_until(end.into()).await;
        self.clock.resume(Instant::now());
    }

    /// Marks the iteration as idle: it had nothing to do, and has no result about the target.
    pub fn idle(&mut self) {
        self.idle = true;
    }

    /// Returns the reason of the current pause.
    pub(crate) fn pausing(&self) -> Option<Pause> {
        self.clock.pausing()
    }

    /// Returns the longest time to a response, over all iterations of the user.
    pub(crate) fn longest_response(&self) -> Duration {
        self.clock.longest_response()
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
        let waited = self.started.elapsed();
        let detail = format!("no response for {waited:.1?}, when the run was cut off");
        let failure = Failure::new(UNANSWERED, detail);
        let exchange = Exchange::without_response(self.started, self.protocol, Err(failure));
        let mut samples = self.recorder.samples();
        samples.request(self.tags, &exchange, self.since);
    }
}
