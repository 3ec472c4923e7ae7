//! Creation of certificates on blocking threads, with a limit of concurrent creations, and the
//! store that only creates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use tokio::sync::Semaphore;

use super::stats::Counters;
use super::{
    CertificateStore, Generate, Minted, Outcome, StoreError, StoreKey, StoreOptions, StoreStats,
};

#[derive(Clone, Debug)]
pub(super) struct Generator {
    permits: Arc<Semaphore>,
    pub(super) counters: Arc<Counters>,
}

/// Creation of one certificate.
pub(super) struct GenerateJob {
    key: StoreKey,
    generate: Generate,
    counters: Arc<Counters>,
}

impl Generator {
    pub(super) fn new(permits: usize) -> Self {
        Generator {
            permits: Arc::new(Semaphore::new(permits.max(1))),
            counters: Arc::default(),
        }
    }

    /// Waits for a permit, which the caller holds until the work is done.
    pub(super) async fn permit(&self) -> Option<tokio::sync::OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.permits.clone().acquire_owned().await.ok()
    }

    pub(super) fn job(&self, key: &StoreKey, generate: Generate) -> GenerateJob {
        GenerateJob {
            key: key.clone(),
            generate,
            counters: self.counters.clone(),
        }
    }

    /// Runs `work` on a thread for blocking work. Dropping the caller does not interrupt the work.
    pub(super) async fn run<T>(
        &self,
        key: &StoreKey,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
    {
        tokio::task::spawn_blocking(work).await.map_err(|_| {
            self.counters.errors.add_one();
            StoreError::Abandoned {
                host: key.host.clone(),
            }
        })
    }

    /// Waits for a permit, and creates a certificate.
    async fn make(&self, key: &StoreKey, generate: Generate) -> Outcome {
        let permit = self.permit().await;
        let job = self.job(key, generate);
        self.run(key, move || {
            let _permit = permit;
            job.make()
        })
        .await?
        .map(Arc::new)
    }
}

impl GenerateJob {
    pub(super) fn make(&self) -> Result<Minted, StoreError> {
        let started = Instant::now();
        let made = (self.generate)(&self.key);
        match made {
            Ok(mut minted) => {
                minted.made_in = started.elapsed();
                self.counters.made(minted.made_in);
                Ok(minted)
            }
            Err(error) => {
                self.counters.errors.add_one();
                Err(StoreError::Generate {
                    host: self.key.host.clone(),
                    source: Arc::new(error),
                })
            }
        }
    }
}

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
