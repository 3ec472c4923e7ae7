//! The bound on what duplicates cost: everybody has the certificates of a public log, and can submit them again as often
//! as they like. Each whose SCT is not in memory has tiles read and an SCT signed. More than some of them at a
//! time wait, and more than many are refused, so that rounds and readers find storage and signer free.

use std::time::Duration;

use lucarne_signer::Seldom;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::SubmitError;

/// Duplicates that are proven and signed at the same time.
const AT_WORK: usize = 32;
/// Those, and the ones that wait for their turn.
const ADMITTED: usize = 1024;
/// The longest wait for a turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// The duplicates of one log.
pub(crate) struct Duplicates {
    at_work: Semaphore,
    admitted: Semaphore,
    /// Log lines about those that could not be proven, or not be signed.
    pub(crate) unproven: Seldom,
    pub(crate) unsigned: Seldom,
}

/// A duplicate at work.
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
            unsigned: Seldom::default(),
        }
    }
}

impl Duplicates {
    /// Waits for a turn.
    ///
    /// # Errors
    /// If too many wait already, or for too long.
    pub(crate) async fn turn(&self) -> Result<DuplicateTurn<'_>, SubmitError> {
        let admitted = self.admitted.try_acquire().map_err(|_| busy())?;
        match timeout(PATIENCE, self.at_work.acquire()).await {
            Ok(Ok(at_work)) => Ok(DuplicateTurn {
                _at_work: at_work,
                _admitted: admitted,
            }),
            _ => Err(busy()),
        }
    }
}

fn busy() -> SubmitError {
    SubmitError::Unavailable {
        retry_after_seconds: 5,
        reason: "too many certificates that the log has already are submitted again".into(),
    }
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
            Some(Err(SubmitError::Unavailable { .. }))
        ));
        drop(working.pop());
        working.push(waiting.remove(0).await.unwrap());
        // All is given back, by those that leave, too.
        drop((working, waiting));
        assert_eq!(duplicates.admitted.available_permits(), ADMITTED);
        assert_eq!(duplicates.at_work.available_permits(), AT_WORK);
    }
}
