//! A store that keeps nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::generator::Generator;
use super::{CertificateStore, Generate, Outcome, StoreError, StoreKey, StoreOptions, StoreStats};

/// Makes a certificate for every call, to see what a store is worth; and
/// makes those of a [`MemoryStore`](super::MemoryStore).
///
/// The bounds on work hold here too. Callers of one key do *not* share.
#[derive(Debug)]
pub struct NoStore {
    generator: Generator,
    calls: Arc<AtomicUsize>,
    limit: usize,
}

impl NoStore {
    /// Of `options`, the bounds on work count.
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

/// Counts as one for as long as it lives.
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
