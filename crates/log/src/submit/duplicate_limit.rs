//! The limit on the cost of duplicates. Every client can fetch the certificates of a public log and
//! submit them again at any rate. Each duplicate whose SCT is not in memory costs reads of tiles
//! and one signature. A limited number of duplicates is processed concurrently, a larger number
//! waits, and all others are rejected. Storage and signer therefore remain available to rounds and
//! readers.

use std::time::Duration;

use lucarne_signer::Seldom;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::error::{SubmitError, Unavailable};

/// Maximum number of duplicates that are proven and signed at the same time.
const AT_WORK: usize = 32;
/// Maximum number of duplicates in progress or waiting for a permit.
const ADMITTED: usize = 1024;
/// Time limit for a duplicate that waits for a permit of `at_work`.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Limits on the duplicates that one log processes at the same time.
pub(crate) struct Duplicates {
    at_work: Semaphore,
    admitted: Semaphore,
    /// Rate limit of log lines about duplicates without a proof.
    pub(crate) unproven: Seldom,
}

/// The permission to process a duplicate.
pub(crate) struct DuplicateTurn<'d> {
    _at_work: SemaphorePermit<'d>,
    _admitted: SemaphorePermit<'d>,
}

impl Default for Duplicates {
    fn default() -> Self {
        Self {
            at_work: Semaphore::new(AT_WORK),
            admitted: Semaphore::new(ADMITTED),
            unproven: Seldom::default(),
        }
    }
}

impl Duplicates {
    /// Waits for the permission to process a duplicate.
    ///
    /// # Errors
    /// If too many duplicates wait already, or the wait takes too long.
    pub(crate) async fn turn(&self) -> Result<DuplicateTurn<'_>, SubmitError> {
        let admitted = self.admitted.try_acquire().map_err(|_| busy())?;
        match timeout(PERMIT_TIMEOUT, self.at_work.acquire()).await {
            Ok(Ok(at_work)) => Ok(DuplicateTurn {
                _at_work: at_work,
                _admitted: admitted,
            }),
            _ => Err(busy()),
        }
    }
}

fn busy() -> SubmitError {
    SubmitError::Unavailable(Unavailable::DuplicatesPending)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn some_work_some_wait_and_the_rest_is_refused() {
        let duplicates = Duplicates::default();
        let mut working = Vec::new();
        for _ in 0..AT_WORK {
            working.push(duplicates.turn().await.unwrap());
        }
        let mut waiting: Vec<_> = (AT_WORK..ADMITTED)
            .map(|_| Box::pin(duplicates.turn()))
            .collect();
        for turn in &mut waiting {
            assert!(turn.now_or_never().is_none(), "it waits");
        }
        assert!(matches!(
            duplicates.turn().now_or_never(),
            Some(Err(SubmitError::Unavailable(_)))
        ));
        drop(working.pop());
        working.push(waiting.remove(0).await.unwrap());
        // All permits are returned, also the permits of cancelled waits.
        drop((working, waiting));
        assert_eq!(duplicates.admitted.available_permits(), ADMITTED);
        assert_eq!(duplicates.at_work.available_permits(), AT_WORK);
    }
}
