//! The handle of one log: takes submissions, answers readers, and keeps the
//! sequencer running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use lucarne_ct::{
    Chain, Entry, EntryKind, Fingerprint, Identity, Roots, Sct, SignedEntry, Validator,
};
use lucarne_storage::{Asset, AssetKind, Assets, Lock};
use lucarne_tlog::{EMPTY_ROOT, Tile};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::dedup::Place;
use crate::health::Prober;
use crate::metrics::LogMetrics;
use crate::pool::{Epoch, Joined, Known, Ticket};
use crate::reader::{Reader, Stored};
use crate::recent::Recent;
use crate::sequencer::{Sequencer, Session};
use crate::{
    Fatal, Health, LogConfig, Metrics, Published, ReadError, State, Stats, SubmitError, catchup,
    recover,
};

/// First pause before a stopped log is opened again; doubled each time.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Longest pause.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// What the handle, the supervisor and the sequencer share.
pub(crate) struct Shared {
    pub(crate) config: LogConfig,
    pub(crate) assets: Arc<dyn Assets>,
    pub(crate) lock: Arc<dyn Lock>,
    pub(crate) reader: Reader,
    pub(crate) metrics: LogMetrics,
    pub(crate) recent: Mutex<Recent>,
    validator: ArcSwap<Validator>,
    session: ArcSwapOption<Session>,
    state: Mutex<State>,
    closing: AtomicBool,
    wake: Notify,
}

/// One log. The handle outlives failures: a fatal error stops the sequencer,
/// which is opened again with back-off, while reads go on.
pub struct Log {
    shared: Arc<Shared>,
    prober: Prober,
    finished: watch::Receiver<bool>,
}

impl Log {
    /// Makes a log that does not exist yet: signs the empty tree into the lock
    /// and publishes it.
    ///
    /// The lock comes first: a log that is in the lock and not in storage is
    /// published at its first start, the other way round it would be refused.
    ///
    /// # Errors
    /// If lock or storage already hold a log, or fail.
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
        let now_ms = config.clock.now_ms();
        let note = config
            .key
            .sign_checkpoint(&config.origin, 0, &EMPTY_ROOT, now_ms)
            .map_err(|error| Fatal::Sign(error.to_string()))?;
        lock.create(&config.key.log_id().0, note.as_bytes()).await?;
        let checkpoint = Asset::new("checkpoint", note, AssetKind::Checkpoint);
        Ok(assets.publish(vec![checkpoint]).await?)
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
        let validator = Validator::new(Arc::new(roots), config.policy.clone());
        let shared = Arc::new(Shared {
            reader: Reader::new(assets.clone(), config.read_cache_bytes),
            metrics: metrics.of(&config.shortname),
            recent: Mutex::default(),
            validator: ArcSwap::from_pointee(validator),
            session: ArcSwapOption::empty(),
            state: Mutex::new(State::Starting),
            closing: AtomicBool::new(false),
            wake: Notify::new(),
            config,
            assets,
            lock,
        });
        let (done, finished) = watch::channel(false);
        let supervised = shared.clone();
        tokio::spawn(async move {
            supervised.supervise().await;
            let _ = done.send(true);
        });
        Arc::new(Log {
            shared,
            prober: Prober::default(),
            finished,
        })
    }

    /// What the operator told this log.
    pub fn config(&self) -> &LogConfig {
        &self.shared.config
    }

    /// Whether the log takes submissions.
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
        let policy = self.shared.config.policy.clone();
        let validator = Validator::new(Arc::new(roots), policy);
        self.shared.validator.store(Arc::new(validator));
    }

    /// The newest published checkpoint; none before the log was ever opened.
    pub fn published(&self) -> Option<Arc<Published>> {
        self.shared.reader.published()
    }

    /// A tile as stored. Any partial width up to the newest is served, as a
    /// prefix of the newest. `None` if the published checkpoint does not cover
    /// it.
    ///
    /// # Errors
    /// If storage fails or is damaged.
    pub async fn tile(&self, tile: Tile) -> Result<Option<Stored>, ReadError> {
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
    /// If storage fails.
    pub async fn issuer(&self, fingerprint: &Fingerprint) -> Result<Option<Bytes>, ReadError> {
        self.shared.reader.issuer(fingerprint).await
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
        if let Some(session) = self.shared.session.load().as_ref() {
            session.pool.close();
        }
        self.shared.wake.notify_one();
        let _ = self.finished.clone().wait_for(|finished| *finished).await;
    }
}

impl Shared {
    async fn submit(&self, kind: EntryKind, chain: Chain) -> Result<Sct, SubmitError> {
        let Placed {
            signed,
            place,
            duplicate,
        } = self.place(kind, &chain)?;
        let (index, timestamp_ms) = match place {
            At::Index(place) => (place.index, place.timestamp_ms),
            At::Round(ticket) => ticket.wait().await.map_err(|_| self.unavailable())?,
        };
        let counter = match duplicate {
            true => &self.metrics.duplicate,
            false => &self.metrics.accepted,
        };
        counter.inc();
        self.sct(&signed, index, timestamp_ms)
    }

    /// Examines, looks for a duplicate, verifies, joins the open round: all
    /// that happens before there is something to wait for.
    fn place(&self, kind: EntryKind, chain: &Chain) -> Result<Placed, SubmitError> {
        let session = self.session.load();
        let session = session.as_ref().ok_or_else(|| self.unavailable())?;
        let validator = self.validator.load();
        let examined = validator
            .examine(chain, kind, self.config.clock.now_ms())
            .map_err(SubmitError::Rejected)?;
        // A duplicate is answered before any signature is checked.
        let looked = match (examined.identity(), examined.signed()) {
            (Some(identity), Some(signed)) => match self.look(session, identity)? {
                Looked::Found(place) => {
                    return Ok(Placed {
                        signed,
                        place,
                        duplicate: true,
                    });
                }
                Looked::Absent(epoch) => Some(epoch),
            },
            _ => None,
        };
        let entry = validator.verify(examined).map_err(SubmitError::Rejected)?;
        let signed = entry.signed.clone();
        let place = self.join(session, entry, looked)?;
        Ok(Placed {
            signed,
            place,
            duplicate: false,
        })
    }

    /// Looks for an identity in memory, then in the index.
    fn look(&self, session: &Session, identity: &Identity) -> Result<Looked, SubmitError> {
        let epoch = match session.pool.find(identity) {
            Known::Here(ticket) => return Ok(Looked::Found(At::Round(ticket))),
            Known::NotHere(epoch) => epoch,
        };
        let found = session.dedup.find(identity);
        let found = found.map_err(|fatal| self.unreadable(session, &fatal))?;
        Ok(found.map_or(Looked::Absent(epoch), |place| {
            Looked::Found(At::Index(place))
        }))
    }

    /// Joins the open round, once the entry is known to be nowhere else.
    fn join(
        &self,
        session: &Session,
        mut entry: Entry,
        mut looked: Option<Epoch>,
    ) -> Result<At, SubmitError> {
        loop {
            let epoch = match looked.take() {
                Some(epoch) => epoch,
                None => match self.look(session, &entry.identity)? {
                    Looked::Found(place) => return Ok(place),
                    Looked::Absent(epoch) => epoch,
                },
            };
            match session.pool.join(entry, epoch) {
                Joined::At(ticket) => return Ok(At::Round(ticket)),
                Joined::LookAgain(same) => entry = *same,
                Joined::Full {
                    retry_after_seconds,
                } => {
                    return Err(SubmitError::Full {
                        retry_after_seconds,
                    });
                }
                Joined::Closed => return Err(self.unavailable()),
            }
        }
    }

    fn sct(&self, signed: &SignedEntry, index: u64, timestamp: u64) -> Result<Sct, SubmitError> {
        self.config
            .key
            .sign_sct(timestamp, signed, index)
            .map_err(|error| SubmitError::Unavailable {
                retry_after_seconds: 10,
                reason: format!("signing failed: {error}"),
            })
    }

    fn unavailable(&self) -> SubmitError {
        let (retry_after_seconds, reason) = match &*self.state.lock() {
            State::Retired => return SubmitError::Gone,
            State::Starting => (5, "the log is starting".into()),
            State::Running => (1, "the round failed".into()),
            State::Closed => (10, "the log is shutting down".into()),
            State::Stopped { retry_at_ms, .. } => {
                let wait_ms = retry_at_ms.saturating_sub(self.config.clock.now_ms());
                let seconds = wait_ms.div_ceil(1000).clamp(1, 60) as u32;
                (seconds, "the log is stopped by an error".into())
            }
        };
        SubmitError::Unavailable {
            retry_after_seconds,
            reason,
        }
    }

    /// Without its index the log cannot tell duplicates: it stops, and opens
    /// or rebuilds the index at its next start.
    fn unreadable(&self, session: &Session, fatal: &Fatal) -> SubmitError {
        tracing::error!(log = self.config.shortname, error = %fatal, "dedup index failed");
        session.pool.fail(fatal.to_string());
        self.unavailable()
    }

    /// Keeps the log open until it is told to close.
    async fn supervise(self: Arc<Self>) {
        let name = self.config.shortname.clone();
        self.show_published().await;
        let mut backoff = FIRST_BACKOFF;
        while !self.closing.load(Ordering::SeqCst) {
            if self.config.retired(self.config.clock.now_ms()) {
                self.set_state(State::Retired);
                self.wake.notified().await;
                continue;
            }
            let opened = Instant::now();
            let Err(fatal) = self.clone().session().await else {
                continue;
            };
            if opened.elapsed() > MAX_BACKOFF {
                backoff = FIRST_BACKOFF;
            }
            tracing::error!(log = name, error = %fatal, retry_in = ?backoff, "log stopped");
            self.stopped(&fatal, backoff);
            tokio::select! {
                () = tokio::time::sleep(backoff) => {}
                () = self.wake.notified() => {}
            }
            backoff = (2 * backoff).min(MAX_BACKOFF);
        }
        self.set_state(State::Closed);
    }

    fn stopped(&self, fatal: &Fatal, backoff: Duration) {
        self.metrics.failures.inc();
        let now_ms = self.config.clock.now_ms();
        let since_ms = match &*self.state.lock() {
            State::Stopped { since_ms, .. } => *since_ms,
            _ => now_ms,
        };
        self.set_state(State::Stopped {
            reason: fatal.to_string(),
            since_ms,
            retry_at_ms: now_ms + backoff.as_millis() as u64,
        });
    }

    fn set_state(&self, state: State) {
        self.metrics.up.set(i64::from(state == State::Running));
        *self.state.lock() = state;
    }

    /// One session, in a task of its own: a panic is an error like others.
    async fn session(self: Arc<Self>) -> Result<(), Fatal> {
        let result = tokio::spawn(self.clone().run()).await;
        if let Some(session) = self.session.swap(None) {
            session.pool.abandon();
            released(session).await;
        }
        result.unwrap_or_else(|panic| Err(Fatal::Inconsistent(format!("internal error: {panic}"))))
    }

    /// Opens the log and sequences until it is closed, or fails.
    async fn run(self: Arc<Self>) -> Result<(), Fatal> {
        let recovered = recover::recover(&self.config, &*self.assets, &*self.lock).await?;
        let size = recovered.tree.size();
        let owner = self.config.key.log_id();
        let dedup = catchup::open(&self.config.cache, owner, &*self.assets, size).await?;
        self.metrics.dedup_indexed.set(size as i64);
        let session = Arc::new(Session::new(self.config.pool_size, dedup));
        let sequencer = Sequencer::new(self.clone(), session.clone(), recovered);
        self.session.store(Some(session.clone()));
        if self.closing.load(Ordering::SeqCst) {
            session.pool.close();
        }
        self.set_state(State::Running);
        tracing::info!(log = self.config.shortname, size, "log open");
        drop(session);
        sequencer.run().await
    }

    /// Reads go on even if the log cannot be opened.
    async fn show_published(&self) {
        match recover::published(&self.config, &*self.assets).await {
            Ok(Some(head)) => self.reader.publish(head.published(), None),
            Ok(None) => {}
            Err(fatal) => {
                tracing::error!(log = self.config.shortname, error = %fatal, "cannot serve");
            }
        }
    }
}

/// Waits until no submission holds the session, so that its index is closed
/// before it is opened again. They hold it for microseconds.
async fn released(session: Arc<Session>) {
    while Arc::strong_count(&session) > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A submission that has its place.
struct Placed {
    signed: SignedEntry,
    place: At,
    /// It was known before any signature was verified.
    duplicate: bool,
}

/// Where an entry is.
enum At {
    /// In the log.
    Index(Place),
    /// In a round that may not be published yet.
    Round(Ticket),
}

/// What memory and index know of an identity.
enum Looked {
    Found(At),
    /// It was nowhere at this time.
    Absent(Epoch),
}
