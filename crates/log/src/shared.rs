//! The state that a log's handle, supervisor and sequencer share.
//!
//! Each part is in the folder of its users: `submissions` accepts chains, `index` keeps the dedup
//! index up to date, `rfc6962` has the read operations of RFC 6962, `status` is for operators, and
//! `instance` is for followers and leaders.

pub(crate) mod instance;
pub(crate) mod turn;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lucarne_ct::Roots;
use lucarne_storage::{AssetError, Assets, Lock, ReadAssets};
use tokio::sync::{Notify, watch};

use crate::config::LogConfig;
use crate::data::tree::Tree;
use crate::error::Fatal;
use crate::index::log_index::LogIndex;
use crate::read::damaged_files::DamagedFiles;
use crate::read::reader::Reader;
use crate::rfc6962::state::Rfc6962;
use crate::shared::instance::Instance;
use crate::shared::turn::Turn;
use crate::status::clock_jump::{is_ahead, not_ahead_of_store};
use crate::status::log_status::LogStatus;
use crate::status::metrics::{LogMetrics, Metrics};
use crate::status::state::{Published, State};
use crate::submit::session::Session;
use crate::submit::submissions::Submissions;

/// Maximum age of a reading of a store's clock. This process may have been suspended since.
const STORE_DATE_LIFETIME: Duration = Duration::from_secs(60);

/// The state of one log that all of its tasks share.
pub(crate) struct Shared {
    pub(crate) config: Arc<LogConfig>,
    pub(crate) assets: Arc<dyn Assets>,
    pub(crate) lock: Arc<dyn Lock>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) metrics: Arc<LogMetrics>,
    pub(crate) status: Arc<LogStatus>,
    pub(crate) submissions: Submissions,
    pub(crate) index: LogIndex,
    /// The state of the RFC 6962 read operations, if they are enabled.
    pub(crate) rfc6962: Option<Arc<Rfc6962>>,
    pub(crate) instance: Instance,
    /// The turn of this process to run the log. Before the turn, another process runs the log.
    pub(crate) turn: Turn,
    /// Whether readers see the newest checkpoint that lock, journal and storage lead to, or these
    /// cannot be read. Until then, reads wait.
    pub(crate) current: watch::Sender<bool>,
    /// Held while this process reads the published checkpoint for readers, so that a slow read does
    /// not overwrite a newer result.
    pub(crate) following: tokio::sync::Mutex<()>,
    pub(crate) wake: Notify,
}

impl Shared {
    pub(crate) fn new(
        config: LogConfig,
        roots: Roots,
        files: ReadAssets,
        lock: Arc<dyn Lock>,
        metrics: &Metrics,
    ) -> Self {
        let (found, named) = metrics.damaged_of(&config.shortname);
        let assets = files.store().clone();
        let reader = Arc::new(Reader::new(
            files,
            config.rounds.read_cache_bytes,
            metrics.reads_of(&config.shortname),
            DamagedFiles::new(found, named),
        ));
        let metrics = Arc::new(metrics.of(&config.shortname));
        let config = Arc::new(config);
        let status = Arc::new(LogStatus::new(config.clone(), metrics.clone()));
        let parts = (reader.clone(), status.clone(), metrics.clone());
        let stores = (assets.clone(), lock.clone());
        let rfc6962 = config.rfc6962_reads.as_deref();
        Shared {
            submissions: Submissions::new(config.clone(), roots, parts.clone()),
            index: LogIndex::new(config.clone(), stores, parts),
            rfc6962: rfc6962
                .map(|folder| Arc::new(Rfc6962::new(folder, config.clone(), reader.clone()))),
            instance: Instance::of(&config),
            turn: Turn::now(),
            current: watch::Sender::new(false),
            following: tokio::sync::Mutex::default(),
            wake: Notify::new(),
            config,
            assets,
            lock,
            reader,
            metrics,
            status,
        }
    }

    /// Shows a committed tree and its checkpoint to readers of this process.
    pub(crate) fn show(&self, tree: &Arc<Tree>, checkpoint: &Bytes) {
        let metrics = &self.metrics;
        metrics.tree_size.set(tree.size() as i64);
        metrics
            .checkpoint_timestamp
            .set((tree.timestamp_ms / 1000) as i64);
        metrics.note_storage(self.assets.stats());
        metrics
            .read_cache
            .set(i64::try_from(self.reader.cached_bytes()).unwrap_or(i64::MAX));
        let published = Published {
            size: tree.size(),
            root: tree.root,
            timestamp_ms: tree.timestamp_ms,
            checkpoint: checkpoint.clone(),
            at: Instant::now(),
        };
        self.reader.publish(published, Some(tree.clone()));
        self.submissions.show(tree.size());
    }

    /// Checks whether the clocks of storage and lock confirm a clock that showed `wall_ms` at `at`,
    /// if it is ahead of the time `known_ms`. A clock that does not respond is ignored.
    ///
    /// # Errors
    /// [`Fatal::AheadOfStore`] if one of these clocks is behind.
    pub(crate) async fn confirm_clock(
        &self,
        (wall_ms, at): (u64, Instant),
        known_ms: u64,
    ) -> Result<(), Fatal> {
        if !is_ahead(wall_ms, known_ms) {
            return Ok(());
        }
        let of_lock = self.lock.date().await.ok().flatten();
        let dates = [
            (self.assets.stats().date(), self.assets.location()),
            (of_lock, self.lock.location()),
        ];
        for (date, place) in dates {
            let Some(date) = date else { continue };
            let age = at.saturating_duration_since(date.at);
            let store_ms = date.unix_ms.saturating_add(age.as_millis() as u64);
            if age <= STORE_DATE_LIFETIME {
                not_ahead_of_store(wall_ms, store_ms, place)?;
            }
        }
        Ok(())
    }

    /// Syncs storage up to `size`, and cuts the journal.
    ///
    /// # Errors
    /// If data could be lost. If published files are durable anyway, an error is only logged, and
    /// the journal is cut later.
    pub(crate) async fn settle(&self, size: u64) -> Result<(), Fatal> {
        let started = Instant::now();
        match self.assets.settle(size).await {
            Err(error) if self.assets.publishes_durably() => self.neglect(&error),
            settled => {
                settled?;
                tracing::debug!(
                    log = self.config.shortname,
                    size,
                    ms = milliseconds(started.elapsed()),
                    "settled"
                );
            }
        }
        Ok(())
    }

    /// Logs a failed cleanup. The log continues, and retries the cleanup later.
    pub(crate) fn neglect(&self, error: &AssetError) {
        tracing::warn!(log = self.config.shortname, %error, "cannot remove superseded files: \
                                                             retrying later");
        self.metrics.neglected.inc();
    }

    /// Records a failure of this session's index. The error that ended the session may have another
    /// cause, and the next session may end before it opens the index.
    pub(crate) fn note_index(&self, session: &Session) {
        if session.dedup.is_unsound() {
            self.index.set_failed(true);
        }
    }

    /// Starts to accept submissions.
    pub(crate) fn opened(&self, session: Arc<Session>, size: u64) {
        session.lead();
        self.submissions.session.store(Some(session.clone()));
        if self.status.is_closing() {
            session.pool.close();
        }
        self.status.set_state(State::Running);
        tracing::info!(log = self.config.shortname, size, "log open");
    }
}

/// Converts a duration to milliseconds, with a resolution of one microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}
