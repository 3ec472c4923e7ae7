//! One opening of a log: what its submissions share.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::Fatal;
use crate::dedup::Dedup;
use crate::lookups::Lookups;
use crate::pool::Pool;

/// The time that a session that has ended is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pool and the dedup index. A log that is opened again gets new ones.
pub(crate) struct Session {
    pub(crate) pool: Pool,
    pub(crate) dedup: Arc<Dedup>,
    pub(crate) lookups: Lookups,
}

impl Session {
    pub(crate) fn new(pool_size: usize, dedup: Dedup) -> Result<Self, Fatal> {
        let dedup = Arc::new(dedup);
        let lookups = Lookups::start(dedup.clone());
        Ok(Session {
            pool: Pool::new(pool_size),
            lookups: lookups.map_err(|error| Fatal::Internal(error.to_string()))?,
            dedup,
        })
    }

    /// Ends it: tells everybody who waits, and waits until no submission holds
    /// it, so that its index is closed before it is opened again. They hold it
    /// for microseconds. Whoever waits for a disk that hangs keeps it longer:
    /// that is not waited for, and the index cannot be opened until they let go
    /// of it.
    pub(crate) async fn end(self: Arc<Self>) {
        self.pool.abandon();
        let until = Instant::now() + PATIENCE;
        while Arc::strong_count(&self) > 1 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if let Some(session) = Arc::into_inner(self) {
            drop(session.dedup);
            session.lookups.close().await;
        }
    }
}
