//! Store that keeps nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::generator::Generator;
use super::{CertificateStore, Generate, Outcome, StoreError, StoreKey, StoreOptions, StoreStats};

/// Creates a certificate for every call. Serves to measure the benefit of a store, and as the base
/// of a [`MemoryStore`](super::MemoryStore).
///
/// The limits of work apply here, too. Callers with the same key do *not* share the work.
#[derive(Debug)]
pub struct NoStore {
    generator: Generator,
    calls: Arc<AtomicUsize>,
    limit: usize,
}

impl NoStore {
    /// Creates a store with the limits of work in `options`.
    pub fn new(options: &StoreOptions) -> Self {
        NoStore {
            generator: Generator::new(options.generations),
            calls: Arc::default(),
            limit: options.waiting,
        }
    }
}

#[async_trait::async_trait]
impl CertificateStore for NoStore {
    async fn fetch(&self, key: &StoreKey, generate: Generate) -> Outcome {
        let counters = &self.generator.counters;
        let Some(_call) = Call::begin(&self.calls, self.limit) else {
            counters.overloaded.add_one();
            return Err(StoreError::Overloaded {
                host: key.host.clone(),
                limit: self.limit,
            });
        };
        counters.misses.add_one();
        self.generator.make(key, generate).await
    }

    fn stats(&self) -> StoreStats {
        StoreStats {
            in_flight: self.calls.load(Relaxed) as u64,
            ..self.generator.counters.snapshot()
        }
    }
}

/// Counts a call until it is dropped.
struct Call(Arc<AtomicUsize>);

impl Call {
    fn begin(calls: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let before = calls.fetch_add(1, Relaxed);
        let call = Call(calls.clone());
        (before < limit).then_some(call)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
