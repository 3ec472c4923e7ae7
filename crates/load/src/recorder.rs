//! Recorder of a scenario.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;

use crate::exchange::{Exchange, Failure};
use crate::excuse::Excuses;
use crate::samples::{IterationResult, SampleBuffer, Samples};
use crate::tags::{TagRegistry, Tags};

/// Records samples, each under a set of tags. Recording is cheap: each worker has its own buffer,
/// and the collector merges them once a second.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shard: Arc<SampleBuffer>,
    registry: Arc<TagRegistry>,
    base: Tags,
    excuses: Excuses,
}

impl Recorder {
    pub(crate) fn new(
        shard: Arc<SampleBuffer>,
        registry: Arc<TagRegistry>,
        base: Tags,
        excuses: Excuses,
    ) -> Self {
        Recorder(Arc::new(Inner {
            shard,
            registry,
            base,
            excuses,
        }))
    }

    /// Creates a recorder outside a run, which discards its samples, for trying out a scenario.
    pub fn detached(scenario: &str) -> Self {
        let registry = Arc::new(TagRegistry::default());
        let base = registry.base(scenario, &[]);
        Recorder::new(Arc::default(), registry, base, Excuses::default())
    }

    /// Interns the scenario's tags and `extra`. Takes a lock and allocates: call it once per user,
    /// not per sample. A run stores 4,096 sets of tags; further sets are recorded without `extra`.
    pub fn tags(&self, extra: &[(&str, &str)]) -> Tags {
        self.0.registry.extend(self.0.base, extra)
    }

    /// Records a request that does not belong to an iteration.
    pub fn request(&self, tags: Tags, exchange: &Exchange) {
        self.0
            .shard
            .lock()
            .request(tags, exchange, exchange.started);
    }

    /// Records a check. All failures are counted; the details of the first ten failures are kept as
    /// texts.
    pub fn check<E: Display>(&self, tags: Tags, name: &'static str, outcome: Result<(), E>) {
        let counts = !self.excuses(name);
        self.0.shard.lock().check(tags, name, outcome, counts);
    }

    /// Records a check that passed.
    pub fn passed(&self, tags: Tags, name: &'static str) {
        self.check(tags, name, Ok::<_, Infallible>(()));
    }

    /// Returns whether failures of this check do not count. These failures must not fail a request
    /// or an iteration either.
    pub fn excuses(&self, check: &str) -> bool {
        self.0.excuses.of_check(check).is_some()
    }

    /// Adds `n` to a counter.
    pub fn count(&self, tags: Tags, metric: &'static str, n: u64) {
        self.0.shard.lock().count(tags, metric, n);
    }

    /// Records a duration of a trend.
    pub fn trend(&self, tags: Tags, metric: &'static str, value: Duration) {
        self.0.shard.lock().trend(tags, metric, value);
    }

    /// Records a value of a rate.
    pub fn rate(&self, tags: Tags, metric: &'static str, good: bool) {
        self.0.shard.lock().rate(tags, metric, good);
    }

    /// Records the current value of a gauge.
    pub fn gauge(&self, tags: Tags, metric: &'static str, value: f64) {
        self.0.shard.lock().gauge(tags, metric, value);
    }

    /// Records a failure outside requests and iterations.
    pub fn failure(&self, tags: Tags, failure: Failure) {
        self.0.shard.lock().failure(tags, &failure);
    }

    /// Returns the scenario's own tags, to which [`tags`](Recorder::tags) adds others.
    pub fn base(&self) -> Tags {
        self.0.base
    }

    /// Returns the samples of the worker.
    pub(crate) fn samples(&self) -> MutexGuard<'_, Samples> {
        self.0.shard.lock()
    }

    pub(crate) fn iterated(&self, result: &IterationResult) {
        self.0.shard.lock().iterated(self.0.base, result);
    }
}
