//! One opening of a log: what its submissions share.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

use crate::dedup::Dedup;
use crate::forward::queue::Forwarder;
use crate::lookups::Lookups;
use crate::pool::Pool;
use crate::{Fatal, LogConfig};

/// The time that a session that has ended is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pool and the dedup index. A log that is opened again gets new ones.
pub(crate) struct Session {
    pub(crate) pool: Pool,
    pub(crate) dedup: Arc<Dedup>,
    pub(crate) lookups: Lookups,
    /// The way to the instance that leads, while that is another one: nothing joins the pool.
    forwarder: ArcSwapOption<Forwarder>,
}

impl Session {
    pub(crate) fn new(config: &LogConfig, dedup: Arc<Dedup>) -> Result<Self, Fatal> {
        let lookups = Lookups::start(dedup.clone());
        Ok(Session {
            pool: Pool::new(config.pool_size, &config.lanes),
            lookups: lookups.map_err(|error| Fatal::Internal(error.to_string()))?,
            dedup,
            forwarder: ArcSwapOption::empty(),
        })
    }

    /// From now on another instance leads.
    pub(crate) fn follow(&self, forwarder: Arc<Forwarder>) {
        self.forwarder.store(Some(forwarder));
    }

    /// From now on this instance leads.
    pub(crate) fn lead(&self) {
        self.forwarder.store(None);
    }

    /// The way to the instance that leads, if that is another one.
    pub(crate) fn follows(&self) -> Option<Arc<Forwarder>> {
        self.forwarder.load_full()
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
