//! Creation of certificates on blocking threads, with a limit of concurrent creations.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;

use super::stats::Counters;
use super::{Generate, Minted, Outcome, StoreError, StoreKey};

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
    pub(super) async fn make(&self, key: &StoreKey, generate: Generate) -> Outcome {
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
