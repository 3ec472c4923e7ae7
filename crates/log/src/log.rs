//! The handle of one log: takes submissions and answers readers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use lucarne_ct::{Chain, EntryKind, Fingerprint, Roots, Sct};
use lucarne_signer::Head;
use lucarne_storage::{Asset, AssetKind, Assets, Lock};
use lucarne_tlog::{EMPTY_ROOT, Tile};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::health::Prober;
use crate::known::{KnownCheckpoint, KnownError};
use crate::left::{self, Left};
use crate::look::{self, Looked};
use crate::read_cache::StoredFile;
use crate::recover::{self, Newest};
use crate::scrub::scrub;
use crate::shared::Shared;
use crate::supervise::seen;
use crate::{Fatal, Health, LogConfig, Metrics, Published, ReadError, State, Stats, SubmitError};

/// One log. The handle outlives failures: a fatal error stops the sequencer,
/// which is opened again with back-off, while reads go on.
pub struct Log {
    shared: Arc<Shared>,
    prober: Prober,
    finished: watch::Receiver<bool>,
    scrubber: Option<AbortHandle>,
}

impl Log {
    /// Makes a log that does not exist yet: signs the empty tree into the lock
    /// and publishes it.
    ///
    /// The lock comes first: a log that is in the lock and not in storage is
    /// published at its first start, the other way round it would be refused.
    ///
    /// # Errors
    /// If lock or storage already hold a log, or the dedup index in `cache`
    /// knows one of this key, or one of them fails.
    pub async fn create(
        config: &LogConfig,
        assets: &dyn Assets,
        lock: &dyn Lock,
    ) -> Result<(), Fatal> {
        if assets.get("checkpoint").await?.is_some() {
            return Err(Fatal::Inconsistent(format!(
                "{} already holds a log: it is not overwritten",
                assets.location()
            )));
        }
        Log::unseen(config).await?;
        let now_ms = config.clock.now_ms();
        let empty = Head {
            size: 0,
            root: EMPTY_ROOT,
            timestamp_ms: now_ms,
        };
        let note = config.sign_head(empty, Vec::new()).await?.note;
        lock.create(&config.key.log_id().0, &note).await?;
        let checkpoint = Asset::new("checkpoint", note, AssetKind::Checkpoint);
        Ok(assets.publish(vec![checkpoint]).await?)
    }

    /// Looks into the dedup index of a log that is to be made.
    ///
    /// # Errors
    /// If it knows a log of this key: that one exists, whatever lock and storage
    /// say. Or if it cannot be read.
    pub async fn unseen(config: &LogConfig) -> Result<(), Fatal> {
        match seen(config).await? {
            None => Ok(()),
            Some(seen) => Err(Fatal::Inconsistent(format!(
                "this log exists: {seen}. Lock and storage do not have it, so they were emptied, \
                 rolled back, or are not its own: put the newest ones back. To make it anew would \
                 fork it. Only if that log was never in use, as in a test, move the index away"
            ))),
        }
    }

    /// Compares lock, journal, storage and index as the start of a log does, and
    /// writes nothing.
    ///
    /// # Errors
    /// Returns what the start of the log would be refused with.
    pub async fn examine(
        config: &LogConfig,
        assets: Arc<dyn Assets>,
        lock: &dyn Lock,
    ) -> Result<(), Fatal> {
        recover::examine(config, assets, lock).await
    }

    /// Compares lock, journal and storage as the start of a log does, beside a
    /// process that may run the log, and writes nothing. The dedup index, which is
    /// that process's, is left out.
    ///
    /// # Errors
    /// If one of them cannot be looked at now.
    pub async fn look(
        config: &LogConfig,
        assets: &dyn Assets,
        lock: &dyn Lock,
    ) -> Result<Looked, Fatal> {
        look::look(config, assets, lock).await
    }

    /// Compares lock, journal and storage with checkpoints that are known outside,
    /// beside a process that may run the log. Returns what speaks against them.
    ///
    /// # Errors
    /// If they contradict each other, or one of them cannot be looked at now.
    pub async fn hold_against(
        config: &LogConfig,
        assets: Arc<dyn Assets>,
        lock: &dyn Lock,
        known: &[KnownCheckpoint],
    ) -> Result<Vec<KnownError>, Fatal> {
        look::hold_against(config, assets, lock, known).await
    }

    /// The newest checkpoint that storage, journal and index are evidence for:
    /// what belongs into the lock of a log that has lost it. Writes nothing.
    ///
    /// # Errors
    /// If nothing is published, if one of them knows more than the others, or
    /// if they contradict each other.
    pub async fn newest(config: &LogConfig, assets: Arc<dyn Assets>) -> Result<Newest, Fatal> {
        recover::newest(config, assets).await
    }

    /// The published tree of a log that other software wrote, or still writes.
    /// Writes nothing, and asks no lock.
    ///
    /// # Errors
    /// If nothing of this log is published, or its tiles do not lead there.
    pub async fn left(config: LogConfig, assets: Arc<dyn Assets>) -> Result<Left, Fatal> {
        left::left(config, assets).await
    }

    /// Starts a log: returns at once, opening goes on in the background.
    /// Must be called within a tokio runtime.
    pub fn start(
        config: LogConfig,
        roots: Roots,
        assets: Arc<dyn Assets>,
        lock: Arc<dyn Lock>,
        metrics: &Metrics,
    ) -> Arc<Log> {
        let shared = Arc::new(Shared::new(config, roots, assets, lock, metrics));
        let (done, finished) = watch::channel(false);
        let supervised = shared.clone();
        tokio::spawn(async move {
            supervised.supervise().await;
            let _ = done.send(true);
        });
        let scrubber = shared.config.scrub.clone().map(|config| {
            let scrubbing = tokio::spawn(scrub(shared.clone(), config));
            scrubbing.abort_handle()
        });
        Arc::new(Log {
            shared,
            scrubber,
            prober: Prober::default(),
            finished,
        })
    }

    /// Returns what the operator told this log.
    pub fn config(&self) -> &LogConfig {
        &self.shared.config
    }

    /// Returns whether the log takes submissions.
    pub fn state(&self) -> State {
        self.shared.state.lock().clone()
    }

    /// Takes a chain and answers with an SCT once the entry is in a published
    /// checkpoint. A chain submitted before gets the same timestamp and index.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub async fn submit(&self, kind: EntryKind, chain: Chain) -> Result<Sct, SubmitError> {
        let started = Instant::now();
        let metrics = &self.shared.metrics;
        let result = self.shared.submit(kind, chain).await;
        match &result {
            Ok(_) => {
                let took = started.elapsed();
                metrics.submission_seconds.observe(took.as_secs_f64());
                self.shared.recent.lock().note_latency(took);
            }
            Err(SubmitError::Rejected(_)) => drop(metrics.rejected.inc()),
            Err(SubmitError::Full { .. }) => drop(metrics.full.inc()),
            Err(_) => drop(metrics.unavailable.inc()),
        }
        result
    }

    /// The accepted roots.
    pub fn roots(&self) -> Arc<Roots> {
        self.shared.validator.load().roots().clone()
    }

    /// Replaces the accepted roots, from the next submission on.
    pub fn set_roots(&self, roots: Roots) {
        let validator = self.shared.config.validator(roots);
        self.shared.validator.store(Arc::new(validator));
    }

    /// The newest published checkpoint; none before the log was ever opened.
    pub fn published(&self) -> Option<Arc<Published>> {
        self.shared.reader.published()
    }

    /// A tile as stored, data tiles in gzip. Any partial width up to the newest is
    /// served, as what the newest begins with. `None` if the published checkpoint does not cover
    /// it.
    ///
    /// # Errors
    /// If storage fails or is damaged.
    pub async fn tile(&self, tile: Tile) -> Result<Option<StoredFile>, ReadError> {
        self.shared.reader.tile(tile).await
    }

    /// A full data tile in zstd, if it has been transcoded; if not, it is
    /// transcoded in the background and there for a later request.
    pub fn tile_zstd(&self, tile: Tile) -> Option<Bytes> {
        self.shared.reader.zstd(tile)
    }

    /// The certificate with this fingerprint, if an entry of the log refers to
    /// it.
    ///
    /// # Errors
    /// If storage fails or is damaged.
    pub async fn issuer(&self, fingerprint: &Fingerprint) -> Result<Option<StoredFile>, ReadError> {
        self.shared.reader.issuer(fingerprint).await
    }

    /// Publishes `log.v3.json` beside the tiles, for a server that only has
    /// the directory or the bucket.
    ///
    /// # Errors
    /// If storage fails.
    pub async fn publish_log_json(&self, json: Bytes) -> Result<(), ReadError> {
        let asset = Asset::new("log.v3.json", json, AssetKind::LogJson);
        Ok(self.shared.assets.publish(vec![asset]).await?)
    }

    /// Recent figures.
    pub fn stats(&self) -> Stats {
        let mut stats = self.shared.recent.lock().stats();
        if let Some(session) = self.shared.session.load().as_ref() {
            stats.pool_depth = session.pool.depth();
        }
        stats
    }

    /// Asks the log's surroundings; the answers are those of the last second.
    pub async fn health(&self) -> Health {
        self.prober.health(&self.shared, self.state()).await
    }

    /// Takes no more submissions, finishes the round, answers the waiters.
    pub async fn shutdown(&self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        if let Some(scrubber) = &self.scrubber {
            scrubber.abort();
        }
        if let Some(session) = self.shared.session.load().as_ref() {
            session.pool.close();
        }
        self.shared.wake.notify_one();
        let _ = self.finished.clone().wait_for(|finished| *finished).await;
    }
}
