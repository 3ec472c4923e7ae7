//! One opening of a log: what its submissions share.

use std::sync::Arc;
use std::time::Duration;

use crate::dedup::Dedup;
use crate::pool::Pool;

/// The pool and the dedup index. A log that is opened again gets new ones.
pub(crate) struct Session {
    pub(crate) pool: Pool,
    pub(crate) dedup: Dedup,
}

impl Session {
    pub(crate) fn new(pool_size: usize, dedup: Dedup) -> Self {
        Session {
            pool: Pool::new(pool_size),
            dedup,
        }
    }

    /// Ends it: tells everybody who waits, and waits until no submission holds
    /// it, so that its index is closed before it is opened again. They hold it
    /// for microseconds.
    pub(crate) async fn end(self: Arc<Self>) {
        self.pool.abandon();
        while Arc::strong_count(&self) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
