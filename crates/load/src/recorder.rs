//! What scenarios record with.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::samples::Shard;
use crate::tags::Registry;

/// An interned set of tags, always with `scenario` among them. Valid within the
/// run whose recorder made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tags(pub(crate) u32);

/// What one request cost. `None` says that a phase did not happen: a reused
/// connection has no `connect`, plain HTTP no `tls`.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// When it was begun, before connecting.
    pub started: Instant,
    /// When it was over, whether well or not.
    pub finished: Instant,
    /// Until the TCP connection stood.
    pub connect: Option<Duration>,
    /// From then until the TLS handshake was over.
    pub tls: Option<Duration>,
    /// Until the request was handed to the system.
    pub sending: Option<Duration>,
    /// From then until the first byte of the response.
    pub first_byte: Option<Duration>,
    /// From then until its last byte.
    pub body: Option<Duration>,
    /// The response's status; 0 if there was no response.
    pub status: u16,
    /// `"HTTP/1.1"`, `"HTTP/2.0"`; what the scenario speaks.
    pub protocol: &'static str,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Bytes of the response's body alone, as they were sent.
    pub body_in: u64,
    /// Bytes of the request's body alone.
    pub body_out: u64,
    /// Whether it was as it should be. Which statuses are expected is the
    /// scenario's business.
    pub outcome: Result<(), Failure>,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct Failure {
    /// A stable word: `connect_refused`, `connect_timeout`, `dns`, `tls`,
    /// `reset`, `timeout`, `protocol`, `status`, `body`; scenarios have their own.
    pub kind: &'static str,
    /// The particulars. Those of the first ten failures of a kind are kept.
    pub detail: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: &'static str, detail: impl Into<String>) -> Self {
        Failure {
            kind,
            detail: detail.into(),
        }
    }
}

/// Takes samples, each under a set of tags. Cheap: a worker has its own, and
/// once a second they are added up.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shard: Arc<Shard>,
    registry: Arc<Registry>,
    base: Tags,
}

impl Recorder {
    pub(crate) fn new(shard: Arc<Shard>, registry: Arc<Registry>, base: Tags) -> Self {
        Recorder(Arc::new(Inner {
            shard,
            registry,
            base,
        }))
    }

    /// A recorder of no run, whose samples go nowhere: for trying out a scenario.
    pub fn detached(scenario: &str) -> Self {
        let registry = Arc::new(Registry::default());
        let base = registry.base(scenario, &[]);
        Recorder::new(Arc::default(), registry, base)
    }

    /// Interns the scenario's own tags and `extra`. Takes a lock and allocates:
    /// intern once per user, not per sample. A run keeps 4,096 sets of tags; what
    /// comes after that is recorded without `extra`.
    pub fn tags(&self, extra: &[(&str, &str)]) -> Tags {
        self.0.registry.extend(self.0.base, extra)
    }

    /// A request that does not belong to an iteration.
    pub fn request(&self, tags: Tags, exchange: &Exchange) {
        self.0
            .shard
            .lock()
            .request(tags, exchange, exchange.started);
    }

    /// A check. The details of the first ten failures are kept, all are counted.
    pub fn check(&self, tags: Tags, name: &'static str, outcome: Result<(), String>) {
        self.0.shard.lock().check(tags, name, outcome);
    }

    /// Adds to a counter.
    pub fn count(&self, tags: Tags, metric: &'static str, n: u64) {
        self.0.shard.lock().count(tags, metric, n);
    }

    /// A duration of a trend.
    pub fn trend(&self, tags: Tags, metric: &'static str, value: Duration) {
        self.0.shard.lock().trend(tags, metric, value);
    }

    /// A yes or no of a rate.
    pub fn rate(&self, tags: Tags, metric: &'static str, good: bool) {
        self.0.shard.lock().rate(tags, metric, good);
    }

    /// The present value of a gauge.
    pub fn gauge(&self, tags: Tags, metric: &'static str, value: f64) {
        self.0.shard.lock().gauge(tags, metric, value);
    }

    /// Something that went wrong outside of requests and iterations.
    pub fn failure(&self, tags: Tags, failure: Failure) {
        self.0.shard.lock().failure(tags, &failure);
    }

    /// The scenario's tags, without any others.
    pub fn base(&self) -> Tags {
        self.0.base
    }

    pub(crate) fn iterated(&self, iterated: &Iterated) {
        self.0.shard.lock().iterated(self.0.base, iterated);
    }
}

/// What an iteration came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Iterated {
    /// From when it was due.
    pub(crate) duration: Duration,
    /// How much of that the load generator itself lost before it began; `None` in a
    /// closed loop, where nothing is due.
    pub(crate) start_delay: Option<Duration>,
    pub(crate) failed: bool,
}

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
        self.start_delay = start_delay;
    }

    pub(crate) fn end(&self, now: Instant) {
        self.recorder.iterated(&Iterated {
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
        self.recorder.0.shard.lock().request(tags, exchange, since);
    }

    /// Something other than a request went wrong. A failed request is told by its
    /// exchange's outcome and need not be told again.
    pub fn fail(&mut self, failure: Failure) {
        self.failed = true;
        self.recorder.failure(self.recorder.base(), failure);
    }

    /// Whether [`fail`](Iteration::fail) was called.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// It is due later than planned, because the scenario wants it so: what it
    /// waits for before its first request is nobody's latency.
    pub fn postpone(&mut self, by: Duration) {
        self.intended += by;
    }

    /// When it was due.
    pub fn intended(&self) -> Instant {
        self.intended
    }

    /// When it was begun; not before it was due.
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
            outcome: Err(Failure::new(UNANSWERED, detail)),
        };
        let mut samples = self.recorder.0.shard.lock();
        samples.request(self.tags, &exchange, self.since);
    }
}
