//! A limit of concurrent reads: each read of entries, and each lookup of a leaf, takes a permit.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::Rfc6962Error;

/// Maximum number of concurrent requests of one log. Each request holds about one data tile in
/// memory.
const AT_ONCE: usize = 4;

/// Maximum time to wait for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The permits of one log, shared by all clones.
#[derive(Clone)]
pub(super) struct Permits(Arc<Semaphore>);

impl Permits {
    pub(super) fn new() -> Self {
        Permits(Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// Waits for a free permit, and takes it.
    ///
    /// # Errors
    /// [`Rfc6962Error::Busy`] after five seconds.
    pub(super) async fn take(&self) -> Result<OwnedSemaphorePermit, Rfc6962Error> {
        let permit = timeout(PERMIT_TIMEOUT, self.0.clone().acquire_owned()).await;
        // The semaphore is never closed.
        permit.ok().and_then(Result::ok).ok_or(Rfc6962Error::Busy)
    }
}
