//! One opening of a log: the state that its submissions share.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::LogConfig;
use crate::error::Fatal;
use crate::index::dedup::Dedup;
use crate::submit::forward_queue::Forwarder;
use crate::submit::lookups::Lookups;
use crate::submit::pool::Pool;

/// Maximum time to wait for submissions when a session ends.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The pool and the dedup index. A log that is opened again gets a new session.
pub(crate) struct Session {
    pub(crate) pool: Pool,
    pub(crate) dedup: Arc<Dedup>,
    pub(crate) lookups: Lookups,
    /// The queue for the leading instance; `None` if this instance leads. With a queue, the pool is
    /// unused.
    forwarder: ArcSwapOption<Forwarder>,
    /// The start of the write to the index that is in progress.
    indexing: Mutex<Option<Instant>>,
}

impl Session {
    pub(crate) fn new(config: &LogConfig, dedup: Arc<Dedup>) -> Result<Self, Fatal> {
        let lookups = Lookups::start(dedup.clone());
        Ok(Session {
            pool: Pool::new(config.rounds.pool_size, &config.rounds.lanes),
            lookups: lookups.map_err(|error| Fatal::Internal(error.to_string()))?,
            dedup,
            forwarder: ArcSwapOption::empty(),
            indexing: Mutex::default(),
        })
    }

    /// Records that a write to the index has begun at this time, or that it has ended.
    pub(crate) fn note_indexing(&self, since: Option<Instant>) {
        *self.indexing.lock() = since;
    }

    /// Returns how long the current write to the index has taken so far.
    pub(crate) fn indexing(&self) -> Option<Duration> {
        self.indexing.lock().map(|since| since.elapsed())
    }

    /// Records that another instance leads from now on.
    pub(crate) fn follow(&self, forwarder: Arc<Forwarder>) {
        self.forwarder.store(Some(forwarder));
    }

    /// Records that this instance leads from now on.
    pub(crate) fn lead(&self) {
        self.forwarder.store(None);
    }

    /// Returns the queue for the leading instance; `None` if this instance leads.
    pub(crate) fn follows(&self) -> Option<Arc<Forwarder>> {
        self.forwarder.load_full()
    }

    /// Ends the session: reports the end to all waiting submissions, and waits until no submission
    /// holds the session, so that its index is closed before it is opened again. Submissions hold
    /// the session for microseconds, or longer if they wait for a hung disk. In that case, this
    /// function returns after [`END_TIMEOUT`], and the index cannot be opened until these
    /// submissions release the index.
    pub(crate) async fn end(self: Arc<Self>) {
        self.pool.abandon();
        let until = Instant::now() + END_TIMEOUT;
        while Arc::strong_count(&self) > 1 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if let Some(session) = Arc::into_inner(self) {
            drop(session.dedup);
            session.lookups.close().await;
        }
    }
}
