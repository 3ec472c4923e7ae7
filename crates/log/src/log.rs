//! The handle of one log: takes submissions and answers readers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use lucarne_ct::{Chain, EntryKind, Fingerprint, Rejection, Roots, Sct};
use lucarne_signer::Head;
use lucarne_storage::{Asset, AssetKind, Assets, Lock};
use lucarne_tlog::{EMPTY_ROOT, Tile};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::health::Prober;
use crate::known::KnownCheckpoint;
use crate::left::{self, Left};
use crate::look::{self, Looked};
use crate::places::Places;
use crate::read_cache::StoredFile;
use crate::recover::{self, NeverPublished, Newest};
use crate::restore;
use crate::rfc6962::{Rfc6962Reads, keep_index};
use crate::scrub::scrub;
use crate::shared::Shared;
use crate::supervise::seen;
use crate::tree_head;
use crate::{
    Fatal, Health, KnownError, LogConfig, Metrics, Published, ReadError, State, Stats, SubmitError,
    Turn,
};

/// One log. The handle outlives failures: a fatal error stops the sequencer,
/// which is opened again with back-off, while reads go on.
pub struct Log {
    shared: Arc<Shared>,
    prober: Prober,
    finished: watch::Receiver<bool>,
    restorer: AbortHandle,
    scrubber: Option<AbortHandle>,
    indexer: Option<AbortHandle>,
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
        let note = tree_head::sign(config, empty, Vec::new()).await?.note;
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

    /// Returns whether another process on this machine runs the log: that process has the
    /// log's dedup index open.
    pub async fn is_in_use(config: &LogConfig) -> bool {
        seen(config)
            .await
            .is_err_and(|fatal| fatal.is_index_in_use())
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

    /// Returns `text`, a reason or the detail of a check, as strangers may read it: without paths,
    /// users and hosts.
    pub fn public(&self, text: &str) -> String {
        let cache = self.shared.config.cache.display().to_string();
        let places = [
            (self.shared.assets.location(), "the storage"),
            (self.shared.lock.location(), "the lock"),
            (cache, "the cache"),
        ];
        Places::new(places).hide(text)
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
    /// what belongs into the lock of a log that has lost it. One that is `known` outside may be
    /// newer than what is published here, if the tiles lead to it. Writes nothing.
    ///
    /// # Errors
    /// If nothing is published, if one of them knows more than the others, or
    /// if they contradict each other.
    pub async fn newest(
        config: &LogConfig,
        assets: Arc<dyn Assets>,
        known: &[KnownCheckpoint],
    ) -> Result<Newest, Fatal> {
        recover::newest(config, assets, known).await
    }

    /// The round that the lock has signed and that storage has lost, if nothing of it was ever
    /// published as far as storage, journal and index show. Writes nothing.
    ///
    /// # Errors
    /// If nothing is lost, if anything is there of that round, or if storage, journal and index
    /// contradict each other.
    pub async fn never_published(
        config: &LogConfig,
        assets: Arc<dyn Assets>,
        lock: &dyn Lock,
    ) -> Result<NeverPublished, Fatal> {
        recover::never_published(config, assets, lock).await
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
        Log::start_in_turn(config, roots, (assets, lock), metrics, Turn::now())
    }

    /// The same of a log that another process runs until it is this one's turn: until
    /// then it is read only, and shows readers what the other publishes. `assets` must
    /// let it read that; `lock` is not asked before.
    pub fn start_in_turn(
        config: LogConfig,
        roots: Roots,
        (assets, lock): (Arc<dyn Assets>, Arc<dyn Lock>),
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
        let indexer = shared.rfc6962.is_some().then(|| {
            let indexed = shared.clone();
            let indexing = async move {
                indexed.turn.comes().await;
                keep_index(indexed).await
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

    /// Returns what the operator told this log.
    pub fn config(&self) -> &LogConfig {
        &self.shared.config
    }

    /// Returns whether the log takes submissions.
    pub fn state(&self) -> State {
        self.shared.state.lock().clone()
    }

    /// Returns a number that grows at least once a second while the sequencer runs, or waits for
    /// submissions, and between two steps of a round. `None` if the log is not open, or is being
    /// closed or retired: then no round follows.
    pub fn heartbeat(&self) -> Option<u64> {
        let session = self.shared.session.load();
        let pool = session.as_ref().map(|session| &session.pool);
        let is_open = pool.is_some_and(|pool| !pool.is_closed());
        let sequences = is_open && self.state() == State::Running;
        sequences.then(|| self.shared.heartbeat.load(Ordering::Relaxed))
    }

    /// Returns true while the log is being opened for the first time.
    pub fn is_starting(&self) -> bool {
        *self.shared.starting.borrow()
    }

    /// Waits until the log is no longer [starting](Self::is_starting): it takes
    /// submissions then, or says why not.
    pub async fn started(&self) {
        // The sender is ours.
        let _ = self
            .shared
            .starting
            .subscribe()
            .wait_for(|starting| !starting)
            .await;
    }

    /// Looks at what the process publishes that still runs the log, if it is not
    /// this one's turn yet.
    pub async fn follow(&self) {
        if !self.shared.turn.has_come() {
            // In a box: nearly every read has no use for its room.
            Box::pin(self.shared.follow()).await;
        }
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

    /// Takes what another instance of the log has verified, if this one leads, and returns the
    /// answer to it. Whoever calls this knows that the message is from such an instance.
    pub async fn take_forwarded(&self, message: Bytes) -> Bytes {
        self.shared.take(message).await
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

    /// Notes whether some accepted roots are still to be read. Until then, a chain to an unknown
    /// root is not refused: its client must come back.
    pub fn await_roots(&self, awaits: bool) {
        self.shared.awaits_roots.store(awaits, Ordering::SeqCst);
    }

    /// Returns whether some accepted roots are still to be read.
    pub fn awaits_roots(&self) -> bool {
        self.shared.awaits_roots.load(Ordering::SeqCst)
    }

    /// The size of the published tree, and word of each change of it: 0 before the log was ever opened.
    pub fn grown(&self) -> watch::Receiver<u64> {
        self.shared.reader.grown()
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

    /// The names tile of a data tile; `None` if the tree has no such tile.
    ///
    /// # Errors
    /// As [`tile`](Self::tile).
    pub async fn names_tile(&self, data: Tile) -> Result<Option<StoredFile>, ReadError> {
        self.shared.reader.names(data).await
    }

    /// Judges a chain by this log's roots and policy, as if it were submitted and the log did not have its entry.
    /// Nothing is logged, and whether the log takes submissions now does not matter.
    ///
    /// # Errors
    /// The reason why it would be refused.
    pub fn judge(&self, chain: &Chain) -> Result<EntryKind, Rejection> {
        let validator = self.shared.validator.load_full();
        validator.judge(chain, self.shared.now_ms())
    }

    /// The events (`text/event-stream`) of entries from this index on, to the end of their data tile or of
    /// the tree; and the index after them. `None` if the tree ends there.
    ///
    /// # Errors
    /// As [`tile`](Self::tile).
    pub async fn feed(&self, from: u64) -> Result<Option<(Bytes, u64)>, ReadError> {
        self.shared.reader.feed(from).await
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

    /// The reads of RFC 6962; `None` if the log is not configured for them.
    pub fn rfc6962(&self) -> Option<Rfc6962Reads<'_>> {
        Rfc6962Reads::of(&self.shared)
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
        let optional = self.scrubber.iter().chain(&self.indexer);
        for task in optional.chain([&self.restorer]) {
            task.abort();
        }
        if let Some(session) = self.shared.session.load().as_ref() {
            session.pool.close();
        }
        self.shared.wake.notify_one();
        let _ = self.finished.clone().wait_for(|finished| *finished).await;
    }

    /// Lets another process have the data of a log that was shut down. Reading goes on.
    ///
    /// # Errors
    /// If something that was begun has not ended: then it cannot have them.
    pub async fn let_go(&self) -> Result<(), Fatal> {
        Ok(self.shared.assets.close().await?)
    }
}
