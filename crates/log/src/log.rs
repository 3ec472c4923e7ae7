//! The handle of one log, for submissions and reads.

pub(crate) mod health;
mod newest;
mod supervise;

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::{Chain, EntryKind, Fingerprint, Rejection, Roots, Sct};
use lucarne_signer::Head;
use lucarne_storage::{Asset, AssetKind, Assets, Lock, ReadAssets};
use lucarne_tlog::{EMPTY_ROOT, Tile};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::check::restore;
use crate::check::scrub::scrub;
use crate::config::LogConfig;
use crate::data::stored_file::StoredFile;
use crate::data::tree_head;
use crate::error::inconsistency::{IndexInconsistency, StorageInconsistency};
use crate::error::{Fatal, ReadError, SubmitError};
use crate::index::evidence::{earlier_in_use, seen};
use crate::log::health::Prober;
use crate::recovery::known_checkpoints;
use crate::rfc6962::{Rfc6962Reads, keep_index};
use crate::shared::Shared;
use crate::shared::turn::Turn;
use crate::status::metrics::Metrics;
use crate::status::public_errors::PrivateLocations;
use crate::status::state::{Health, Published, State, Stats};
use crate::status::witness_status::WitnessState;
use crate::submit::steps::StepTimes;

/// The handle of a running log. The handle survives failures: after a fatal error, the log is
/// reopened with back-off, and reads continue.
pub struct Log {
    shared: Arc<Shared>,
    prober: Prober,
    finished: watch::Receiver<bool>,
    restorer: AbortHandle,
    scrubber: Option<AbortHandle>,
    indexer: Option<AbortHandle>,
}

impl Log {
    /// Creates a log that does not exist yet: signs the empty tree, writes the checkpoint into the
    /// lock, and publishes the checkpoint.
    ///
    /// The lock is written first. A log that is in the lock but not in storage is published at its
    /// first start; a log that is only in storage would be rejected.
    ///
    /// # Errors
    /// If lock or storage already have a log, if the dedup index in `cache` or an external source
    /// has entries of a log with this key, or if lock, storage or index fails.
    pub async fn create(
        config: &LogConfig,
        assets: &dyn Assets,
        lock: &dyn Lock,
    ) -> Result<(), Fatal> {
        if assets.get("checkpoint").await?.is_some() {
            let storage = assets.location();
            return Err(StorageInconsistency::HoldsLog { storage }.into());
        }
        Log::unseen(config).await?;
        let now_ms = config.clock.now_ms();
        let empty = Head {
            size: 0,
            root: EMPTY_ROOT,
            timestamp_ms: now_ms,
        };
        let note = tree_head::sign(config, empty, Vec::new()).await?.note;
        lock.create(&config.key.log_id().0, &note).await?;
        let checkpoint = Asset::new("checkpoint", note, AssetKind::Checkpoint);
        Ok(assets.publish(vec![checkpoint]).await?)
    }

    /// Checks before a log is created that neither the dedup index nor an external source has
    /// entries of a log with this key.
    ///
    /// # Errors
    /// If one of them has: that log exists, although lock and storage may be empty. Also if the
    /// index cannot be read. An external source that does not respond causes only a warning.
    pub async fn unseen(config: &LogConfig) -> Result<(), Fatal> {
        if let Some(seen) = seen(config).await? {
            return Err(IndexInconsistency::LogExists(seen).into());
        }
        let known = known_checkpoints::ask(config).await;
        Ok(known_checkpoints::none_beyond(0, &known)?)
    }

    /// Returns whether another process on this machine runs the log: that process has the
    /// log's dedup index open.
    pub async fn is_in_use(config: &LogConfig) -> bool {
        seen(config)
            .await
            .is_err_and(|fatal| fatal.is_index_in_use())
    }

    /// Returns whether a process of an earlier version runs the log, with a dedup index that this
    /// version cannot read. The index of this version can be [built](crate::ForeignLog::index)
    /// before that process ends.
    ///
    /// # Errors
    /// If the index of the earlier version cannot be opened.
    pub async fn earlier_index_in_use(config: &LogConfig) -> Result<bool, Fatal> {
        earlier_in_use(config).await
    }

    /// Returns `text`, a reason or the detail of a check, for the public: without paths, users and
    /// hosts.
    pub fn public(&self, text: &str) -> String {
        let cache = self.shared.config.cache.display().to_string();
        let places = [
            (self.shared.assets.location(), "the storage"),
            (self.shared.lock.location(), "the lock"),
            (cache, "the cache"),
        ];
        PrivateLocations::new(places).hide(text)
    }

    /// Starts a log whose readers have no cache on disk. Returns at once, and opens the log in the
    /// background. Must be called within a tokio runtime.
    pub fn start(
        config: LogConfig,
        roots: Roots,
        assets: Arc<dyn Assets>,
        lock: Arc<dyn Lock>,
        metrics: &Metrics,
    ) -> Arc<Log> {
        let places = (ReadAssets::uncached(assets), lock);
        Log::start_in_turn(config, roots, places, metrics, Turn::now())
    }

    /// Starts a log that another process still runs. Until the turn of this process, the log is
    /// read-only and follows the checkpoints of the other process. `assets` must allow these reads;
    /// `lock` is not used before the turn.
    pub fn start_in_turn(
        config: LogConfig,
        roots: Roots,
        (assets, lock): (ReadAssets, Arc<dyn Lock>),
        metrics: &Metrics,
        turn: Turn,
    ) -> Arc<Log> {
        let mut shared = Shared::new(config, roots, assets, lock, metrics);
        shared.turn = turn;
        let shared = Arc::new(shared);
        let (done, finished) = watch::channel(false);
        let supervised = shared.clone();
        tokio::spawn(async move {
            supervised.supervise().await;
            let _ = done.send(true);
        });
        let restored = shared.clone();
        let restoring = async move {
            restored.turn.comes().await;
            restore::attend(restored).await
        };
        let restorer = tokio::spawn(restoring).abort_handle();
        let scrubber = shared.config.scrub.clone().map(|config| {
            let scrubbed = shared.clone();
            let scrubbing = async move {
                scrubbed.turn.comes().await;
                scrub(scrubbed, config).await
            };
            tokio::spawn(scrubbing).abort_handle()
        });
        let indexer = shared.rfc6962.clone().map(|state| {
            let turn = shared.turn.clone();
            let indexing = async move {
                turn.comes().await;
                keep_index(state).await
            };
            tokio::spawn(indexing).abort_handle()
        });
        Arc::new(Log {
            shared,
            restorer,
            scrubber,
            indexer,
            prober: Prober::default(),
            finished,
        })
    }

    #[cfg(feature = "fill")]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the operator's configuration of this log.
    pub fn config(&self) -> &LogConfig {
        &self.shared.config
    }

    /// Returns the state of the log, including whether it accepts submissions.
    pub fn state(&self) -> State {
        self.shared.status.state()
    }

    /// Returns a counter that grows with each step of a round, and at least once a second while the
    /// sequencer waits for the next round. `None` if no round follows, because the log is not open,
    /// or is being closed or retired.
    pub fn heartbeat(&self) -> Option<u64> {
        let session = self.shared.submissions.session.load();
        let pool = session.as_ref().map(|session| &session.pool);
        let is_open = pool.is_some_and(|pool| !pool.is_closed());
        let sequences = is_open && self.state() == State::Running;
        sequences.then(|| self.shared.status.heartbeat())
    }

    /// Returns `true` while the log opens for the first time.
    pub fn is_starting(&self) -> bool {
        *self.shared.status.starting().borrow()
    }

    /// Waits until the log is no longer [starting](Self::is_starting): it then accepts submissions,
    /// or its state has the reason why not.
    pub async fn started(&self) {
        // The sender lives as long as `self`.
        let _ = self
            .shared
            .status
            .starting()
            .wait_for(|starting| !starting)
            .await;
    }

    /// Waits until readers see the newest checkpoint that lock and journal lead to, in bounded
    /// time. If the turn of this process has not come yet, reads the newest checkpoint of the
    /// process that still runs the log. Call this function before each read.
    pub async fn follow(&self) {
        if !self.shared.is_current() {
            // Boxed, because nearly every read skips this large future.
            Box::pin(self.shared.follow()).await;
        }
    }

    /// Accepts a chain, and returns an SCT after the entry is in a published checkpoint. A chain
    /// that was submitted before gets the same timestamp and index.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub async fn submit(&self, kind: EntryKind, chain: Chain) -> Result<Sct, SubmitError> {
        self.submit_in_steps(kind, chain, &mut StepTimes::default())
            .await
    }

    /// Does the same as [`submit`](Self::submit), and records the steps of the submission.
    ///
    /// # Errors
    /// The errors of [`submit`](Self::submit).
    pub async fn submit_in_steps(
        &self,
        kind: EntryKind,
        chain: Chain,
        steps: &mut StepTimes,
    ) -> Result<Sct, SubmitError> {
        let started = Instant::now();
        let metrics = &self.shared.metrics;
        let result = self.shared.submissions.submit_in_steps(kind, chain, steps);
        let result = result.await;
        match &result {
            Ok(_) => {
                let took = started.elapsed();
                metrics.submission_seconds.observe(took.as_secs_f64());
                self.shared.status.recent.lock().note_latency(took);
            }
            Err(SubmitError::Rejected(_)) => drop(metrics.rejected.inc()),
            Err(SubmitError::Full { .. }) => drop(metrics.full.inc()),
            Err(_) => drop(metrics.unavailable.inc()),
        }
        result
    }

    /// Takes verified entries from another instance of the log if this instance leads, and returns
    /// the response. The caller must have authenticated the sender as an instance of this log.
    pub async fn take_forwarded(&self, message: Bytes) -> Bytes {
        self.shared.take(message).await
    }

    /// Returns the roots to which chains of new submissions may lead.
    pub fn roots(&self) -> Arc<Roots> {
        self.shared.submissions.roots()
    }

    /// Replaces the accepted roots, from the next submission on.
    pub fn set_roots(&self, roots: Roots) {
        self.shared.submissions.set_roots(roots);
    }

    /// Sets whether some accepted roots are not loaded yet. If so, a chain to an unknown root is
    /// not rejected; its client must retry.
    pub fn await_roots(&self, awaits: bool) {
        self.shared.submissions.await_roots(awaits);
    }

    /// Returns whether some accepted roots are not loaded yet.
    pub fn awaits_roots(&self) -> bool {
        self.shared.submissions.awaits_roots()
    }

    /// Returns a receiver of the size of the tree that readers see. The size is 0 until this
    /// process has a published checkpoint.
    pub fn grown(&self) -> watch::Receiver<u64> {
        self.shared.reader.grown()
    }

    /// Returns the checkpoint that readers see; `None` until this process has read or published a
    /// checkpoint.
    pub fn published(&self) -> Option<Arc<Published>> {
        self.shared.reader.published()
    }

    /// Returns a tile as stored; data tiles have gzip encoding. Every partial width up to the
    /// newest width is available, as a prefix of the newest tile. Returns `None` if the published
    /// checkpoint does not cover the tile.
    ///
    /// # Errors
    /// If storage fails or is damaged.
    pub async fn tile(&self, tile: Tile) -> Result<Option<StoredFile>, ReadError> {
        self.reach_tile(tile).await?;
        self.shared.reader.tile(tile).await
    }

    /// Returns the names tile of a data tile; `None` if the tree has no such tile.
    ///
    /// # Errors
    /// See [`tile`](Self::tile).
    pub async fn names_tile(&self, data: Tile) -> Result<Option<StoredFile>, ReadError> {
        self.reach_tile(data).await?;
        self.shared.reader.names(data).await
    }

    /// Validates a chain against this log's roots and policy, like the submission of a new entry.
    /// The check adds no entry, and works even if the log does not accept submissions now.
    ///
    /// # Errors
    /// The reason for the rejection.
    pub fn judge(&self, chain: &Chain) -> Result<EntryKind, Rejection> {
        self.shared.submissions.judge(chain)
    }

    /// Returns the events (`text/event-stream`) of entries from this index to the end of their data
    /// tile or of the tree, and the index after them. Returns `None` if the tree ends at this
    /// index.
    ///
    /// # Errors
    /// See [`tile`](Self::tile).
    pub async fn feed(&self, from: u64) -> Result<Option<(Bytes, u64)>, ReadError> {
        self.shared.reader.feed(from).await
    }

    /// Returns a full data tile in zstd, if it has been transcoded. Otherwise starts transcoding in
    /// the background, for later requests.
    pub fn tile_zstd(&self, tile: Tile) -> Option<Bytes> {
        self.shared.reader.zstd(tile)
    }

    /// Returns the certificate with this fingerprint, if an entry of the log refers to it.
    ///
    /// # Errors
    /// If storage fails or is damaged.
    pub async fn issuer(&self, fingerprint: &Fingerprint) -> Result<Option<StoredFile>, ReadError> {
        self.shared.reader.issuer(fingerprint).await
    }

    /// Returns the read API of RFC 6962; `None` if it is not configured.
    pub fn rfc6962(&self) -> Option<Rfc6962Reads<'_>> {
        self.shared.rfc6962.as_deref().map(Rfc6962Reads::of)
    }

    /// Publishes `log.v3.json` beside the tiles, for a server that serves only the directory or the
    /// bucket.
    ///
    /// # Errors
    /// If storage fails.
    pub async fn publish_log_json(&self, json: Bytes) -> Result<(), ReadError> {
        let asset = Asset::new("log.v3.json", json, AssetKind::LogJson);
        Ok(self.shared.assets.publish(vec![asset]).await?)
    }

    /// Returns recent statistics.
    pub fn stats(&self) -> Stats {
        let mut stats = self.shared.status.recent.lock().stats();
        if let Some(session) = self.shared.submissions.session.load().as_ref() {
            stats.pool_depth = session.pool.depth();
        }
        stats
    }

    /// Returns the witnesses in the order of the policy. Only an instance that leads requests
    /// cosignatures.
    pub fn witnesses(&self) -> Vec<WitnessState> {
        self.shared.status.witnesses.all()
    }

    /// Checks the log's health; results may be one second old.
    pub async fn health(&self) -> Health {
        self.prober.health(&self.shared, self.state()).await
    }

    /// Stops accepting submissions, finishes the round, and responds to waiting submissions.
    pub async fn shutdown(&self) {
        self.shared.status.close();
        let optional = self.scrubber.iter().chain(&self.indexer);
        for task in optional.chain([&self.restorer]) {
            task.abort();
        }
        if let Some(session) = self.shared.submissions.session.load().as_ref() {
            session.pool.close();
        }
        self.shared.wake.notify_one();
        let _ = self.finished.clone().wait_for(|finished| *finished).await;
    }

    /// Releases the data of a closed log for another process. Reads continue.
    ///
    /// # Errors
    /// If an operation is still in progress: the other process cannot have the data then.
    pub async fn let_go(&self) -> Result<(), Fatal> {
        Ok(self.shared.assets.close().await?)
    }
}
