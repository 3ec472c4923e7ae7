//! The cost of object stores and locks, as metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lucarne_storage::{Lock, LockError, LogId, Observer, Operation, Outcome, StoreDate};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Requested {
    user: String,
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Timed {
    user: String,
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    user: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Looked {
    log: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Held {
    log: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Locked {
    operation: &'static str,
    result: &'static str,
}

type Seconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// Creates a histogram with buckets from 0.5 ms to 16 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 16))
}

lucarne_metrics::metrics! {
    /// The metric families, registered once per process. The metrics of a store have its user as a
    /// label: the short name of a log, or `lock`.
    #[derive(Clone)]
    pub(crate) struct Metering, prefix "lucarne" {
        requests: Family<Requested, Counter> = (
            "store_requests",
            "Requests to object stores by operation and outcome, with repeated and hedged requests"
        );
        seconds: Seconds<Timed> = (
            "store_request_duration",
            "Time from a request to the last byte of its response",
            Unit::Seconds
        ) with seconds;
        hedges: Family<Of, Counter> =
            ("store_hedges", "Hedged requests, sent because an earlier request was slow");
        retries: Family<Of, Counter> = ("store_retries", "Reads and puts repeated after a failure");
        looked: Family<Looked, Counter> = (
            "disk_cache_reads",
            "Files that readers requested and that were not in memory, by result of the disk cache"
        );
        held: Family<Held, Gauge> =
            ("disk_cache", "Size of the files in the disk cache", Unit::Bytes);
        lock: Seconds<Locked> = (
            "lock_duration",
            "Calls of the lock by operation and result",
            Unit::Seconds
        ) with seconds;
    }
}

impl Metering {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metering = Metering::default();
        metering.describe(registry);
        metering
    }

    /// Returns the observer that counts the requests of a log, or of the lock.
    pub(crate) fn of(&self, user: &str) -> Arc<dyn Observer> {
        let counters = Operation::ALL.map(|operation| Counters {
            outcomes: Outcome::ALL.map(|outcome| {
                self.requests.get_or_create_owned(&Requested {
                    user: user.into(),
                    operation: operation.name(),
                    outcome: outcome.name(),
                })
            }),
            seconds: self.seconds.get_or_create_owned(&Timed {
                user: user.into(),
                operation: operation.name(),
            }),
        });
        let looked = |result| {
            self.looked.get_or_create_owned(&Looked {
                log: user.into(),
                result,
            })
        };
        Arc::new(Meter {
            counters,
            hedges: self.hedges.get_or_create_owned(&Of { user: user.into() }),
            retries: self.retries.get_or_create_owned(&Of { user: user.into() }),
            hits: looked("hit"),
            misses: looked("miss"),
            held: self.held.get_or_create_owned(&Held { log: user.into() }),
        })
    }

    /// Removes the metrics of a log that this process no longer has.
    pub(crate) fn forget(&self, user: &str) {
        for operation in Operation::ALL {
            for outcome in Outcome::ALL {
                self.requests.remove(&Requested {
                    user: user.into(),
                    operation: operation.name(),
                    outcome: outcome.name(),
                });
            }
            self.seconds.remove(&Timed {
                user: user.into(),
                operation: operation.name(),
            });
        }
        let of = Of { user: user.into() };
        self.hedges.remove(&of);
        self.retries.remove(&of);
        for result in ["hit", "miss"] {
            self.looked.remove(&Looked {
                log: user.into(),
                result,
            });
        }
        self.held.remove(&Held { log: user.into() });
    }

    /// Wraps the lock, so that each call is counted and timed.
    pub(crate) fn lock(&self, lock: Arc<dyn Lock>) -> Arc<dyn Lock> {
        Arc::new(MeteredLock {
            lock,
            seconds: self.lock.clone(),
        })
    }
}

struct Counters {
    outcomes: [Counter; Outcome::ALL.len()],
    seconds: Histogram,
}

struct Meter {
    counters: [Counters; Operation::ALL.len()],
    hedges: Counter,
    retries: Counter,
    hits: Counter,
    misses: Counter,
    held: Gauge,
}

impl Observer for Meter {
    fn request(&self, operation: Operation, outcome: Outcome, took: Duration) {
        let counters = &self.counters[operation as usize];
        counters.outcomes[outcome as usize].inc();
        counters.seconds.observe(took.as_secs_f64());
    }

    fn hedge(&self) {
        self.hedges.inc();
    }

    fn retry(&self) {
        self.retries.inc();
    }

    fn cache(&self, hit: bool) {
        if hit {
            self.hits.inc();
        } else {
            self.misses.inc();
        }
    }

    fn cache_holds(&self, bytes: u64) {
        self.held.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

struct MeteredLock {
    lock: Arc<dyn Lock>,
    seconds: Seconds<Locked>,
}

impl MeteredLock {
    async fn timed<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        let start = Instant::now();
        let answer = call.await;
        let result = match &answer {
            Ok(_) => "done",
            Err(LockError::Conflict { .. } | LockError::Exists { .. }) => "conflict",
            Err(_) => "failed",
        };
        let locked = Locked { operation, result };
        let seconds = self.seconds.get_or_create_owned(&locked);
        seconds.observe(start.elapsed().as_secs_f64());
        answer
    }
}

#[async_trait]
impl Lock for MeteredLock {
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        self.timed("load", self.lock.load(log)).await
    }

    async fn create(&self, log: &LogId, body: &[u8]) -> Result<(), LockError> {
        self.timed("create", self.lock.create(log, body)).await
    }

    async fn replace(&self, log: &LogId, old: &[u8], new: &[u8]) -> Result<(), LockError> {
        self.timed("replace", self.lock.replace(log, old, new))
            .await
    }

    async fn check(&self) -> Result<(), LockError> {
        self.timed("check", self.lock.check()).await
    }

    async fn date(&self) -> Result<Option<StoreDate>, LockError> {
        self.lock.date().await
    }

    async fn close(&self) {
        self.lock.close().await;
    }

    fn location(&self) -> String {
        self.lock.location()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The position of an item in [`Operation::ALL`] and [`Outcome::ALL`] is its number.
    #[test]
    fn each_request_is_counted_under_its_own_name() {
        let mut registry = Registry::default();
        let metering = Metering::register(&mut registry);
        let meter = metering.of("a");
        for operation in Operation::ALL {
            for outcome in Outcome::ALL {
                meter.request(operation, outcome, Duration::ZERO);
            }
        }
        meter.request(Operation::Put, Outcome::Lost, Duration::from_secs(1));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let count = |labels: &str| {
            let name = format!("lucarne_store_requests_total{{user=\"a\",{labels}}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&name));
            line.unwrap_or_else(|| panic!("no {name} in\n{text}"))
                .to_owned()
        };
        assert_eq!(count("operation=\"put\",outcome=\"lost\""), "2");
        assert_eq!(count("operation=\"get\",outcome=\"absent\""), "1");
        assert_eq!(count("operation=\"other\",outcome=\"done\""), "1");
        metering.forget("a");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(!text.contains("\"a\""), "{text}");
    }
}
