//! A mirror: stores copies of logs, and cosigns their checkpoints when all entries are stored (C2SP
//! tlog-mirror, main of 2026-07-22).
//!
//! ```text
//! add-checkpoint → pending checkpoint
//! add-entries    → head → package → proof → full tiles → next package → … ┬→ 202, ticket
//!                                                                         └→ commit → 200
//! commit         → partial tiles → sync → read back → cosign → record → checkpoint
//! ```

mod bundle;
mod commit;
mod pull;
mod scrub;
mod ticket;
mod tree;
pub mod upload;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use lucarne_storage::{AssetError, Assets, LockError, LogId};
use lucarne_tlog::{
    Checkpoint, EMPTY_ROOT, Frontier, Hash, MAX_TREE_SIZE, NoteSignature, ProofError, Subtree,
    TILE_WIDTH, Tile, verify_subtree_consistency,
};
use parking_lot::Mutex;

pub use self::bundle::EntryFormat;
pub use self::commit::Published;
pub use self::pull::{PullError, Puller};
pub use self::scrub::CopyCheck;
use self::ticket::{Target, Tickets};
use self::tree::Tree;
pub use self::tree::TreeError;
use self::upload::{MalformedUpload, MirrorInfo, Package, UploadHead, package_leaves};
use crate::request::{AddCheckpoint, SignSubtree};
use crate::witness::{Record, Refusal, Slot, Witness};

/// Maximum number of stored entries that a client may send again: those of the largest request that
/// the specification recommends.
const MAX_EXCESS: u64 = 32 * TILE_WIDTH;

/// Number of earlier pending checkpoints that need no ticket.
const RECENT: usize = 8;

/// A mirror of logs.
pub struct Mirror {
    /// The keys of the logs and of the mirror, and the lock.
    witness: Witness,
    tickets: Tickets,
    logs: HashMap<LogId, MirroredLog>,
}

/// A log that is mirrored.
pub struct MirroredLog {
    origin: String,
    format: EntryFormat,
    assets: Arc<dyn Assets>,
    /// `None` until the state is loaded, and after a failure.
    state: tokio::sync::Mutex<Option<State>>,
    was_loaded: AtomicBool,
    published: Mutex<Option<Arc<Published>>>,
    /// Number of entries of the largest checkpoint that the log has signed.
    seen: AtomicU64,
    /// The latest pending checkpoints, newest last.
    recent: Mutex<VecDeque<Target>>,
    /// The damaged files of the last pass of the scrubber.
    damage: Mutex<Vec<String>>,
}

/// The stored entries, and the checkpoint that the mirror has cosigned.
struct State {
    tree: Tree,
    mirrored: Option<Record>,
    /// Whether a commit has begun to replace the record in the lock, and has not ended.
    is_committing: bool,
}

/// The reasons why a mirror refuses entries, or cannot store them.
#[derive(Debug, thiserror::Error)]
pub enum UploadRefusal {
    /// The request is malformed (status 400).
    #[error(transparent)]
    Malformed(#[from] MalformedUpload),
    /// The body ended before its first package (status 400).
    #[error("the body has no complete package of entries")]
    Empty,
    /// The log is unknown (status 404).
    #[error("this mirror does not accept entries of the log {0:?}")]
    UnknownLog(String),
    /// There is no pending checkpoint (status 422).
    #[error("the log has no pending checkpoint: send one to add-checkpoint first")]
    NoPending,
    /// The entries of a package are not in the tree (status 422).
    #[error("the entries {from} to {to} are not proven to be in the tree: {error}", from = .leaves.start, to = .leaves.end)]
    Proof {
        /// Indices of the entries.
        leaves: std::ops::Range<u64>,
        /// The reason.
        error: ProofError,
    },
    /// The client must continue at another entry, or with another checkpoint (status 409).
    #[error("the pending checkpoint has {} entries, and the next entry is {}", .0.size, .0.next)]
    Conflict(MirrorInfo),
    /// The checkpoint is refused, or cannot be recorded.
    #[error(transparent)]
    Checkpoint(#[from] Refusal),
    /// The store failed (status 503).
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl UploadRefusal {
    /// Returns whether the operator of the mirror must act, and not the client.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Tree(_) => true,
            Self::Checkpoint(refusal) => matches!(
                refusal,
                Refusal::Lock(_) | Refusal::Record(..) | Refusal::Signing(_) | Refusal::Clock(_)
            ),
            _ => false,
        }
    }
}

impl From<LockError> for UploadRefusal {
    fn from(error: LockError) -> Self {
        Refusal::from(error).into()
    }
}

impl From<AssetError> for UploadRefusal {
    fn from(error: AssetError) -> Self {
        TreeError::from(error).into()
    }
}

/// The result of an upload.
#[derive(Debug)]
pub enum Uploaded {
    /// All entries are stored (status 200): the cosignatures of the mirror.
    Cosigned(Vec<NoteSignature>),
    /// More entries are needed (status 202).
    Partial(MirrorInfo),
}

impl Mirror {
    /// Creates a mirror. `witness` has the keys of the mirror and of its logs, and `secret`
    /// authenticates tickets. Each log has a store of its own.
    #[must_use]
    pub fn new(
        witness: Witness,
        secret: &[u8; 32],
        logs: impl IntoIterator<Item = (String, EntryFormat, Arc<dyn Assets>)>,
    ) -> Self {
        let log = |(origin, format, assets): (String, _, _)| {
            let log = MirroredLog {
                format,
                assets,
                state: tokio::sync::Mutex::default(),
                was_loaded: AtomicBool::new(false),
                published: Mutex::default(),
                seen: AtomicU64::new(0),
                recent: Mutex::default(),
                damage: Mutex::default(),
                origin,
            };
            (lucarne_ct::sha256(&[log.origin.as_bytes()]), log)
        };
        Self {
            witness,
            tickets: Tickets::new(secret),
            logs: logs.into_iter().map(log).collect(),
        }
    }

    /// Returns the logs, by the hashes of their origins.
    #[must_use]
    pub fn logs(&self) -> &HashMap<LogId, MirroredLog> {
        &self.logs
    }

    /// Returns the keys of the mirror and of its logs.
    #[must_use]
    pub fn witness(&self) -> &Witness {
        &self.witness
    }

    /// Records a pending checkpoint.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn add_checkpoint(&self, request: &AddCheckpoint) -> Result<(), Refusal> {
        let Checkpoint { origin, size, .. } = &request.checkpoint;
        let unknown = || Refusal::UnknownLog(origin.clone());
        let log = self.pushed(origin).ok_or_else(unknown)?;
        if *size > MAX_TREE_SIZE {
            return Err(Refusal::TooLarge(*size));
        }
        // There is no cosignature, and therefore no time.
        self.witness.record(Slot::Pending, request, 0).await?;
        log.see(&request.checkpoint);
        let pending = self.pending(log).await;
        let mut recent = log.recent.lock();
        recent.extend(pending.ok());
        let old = recent.len().saturating_sub(RECENT);
        recent.drain(..old);
        Ok(())
    }

    /// Cosigns a subtree of a checkpoint that this mirror has cosigned.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn sign_subtree(&self, request: &SignSubtree) -> Result<Vec<NoteSignature>, Refusal> {
        self.witness.sign_subtree(request)
    }

    /// Returns the log with this origin, if clients upload its entries.
    fn pushed(&self, origin: &str) -> Option<&MirroredLog> {
        let log = self.logs.get(&lucarne_ct::sha256(&[origin.as_bytes()]));
        log.filter(|log| log.format == EntryFormat::Bundles)
    }

    /// Begins an upload.
    ///
    /// # Errors
    /// See [`UploadRefusal`].
    pub async fn upload(&self, head: UploadHead) -> Result<Upload<'_>, UploadRefusal> {
        let unknown = || UploadRefusal::UnknownLog(head.origin.clone());
        let log = self.pushed(&head.origin).ok_or_else(unknown)?;
        let pending = self.pending(log).await?;
        let mut state = log.state.lock().await;
        let state = self.loaded(log, &mut state).await?;
        let next = state.tree.size();
        let target = self.target(log, &head, &pending, state);
        let excess = head.end.min(next).saturating_sub(head.start);
        match target {
            Some(target) if head.start <= next && excess <= MAX_EXCESS => Ok(Upload {
                mirror: self,
                log,
                known: state.tree.leaves_before(head.start).await?,
                next: head.start,
                is_empty: head.start < head.end,
                target,
            }),
            // The client can continue with the same proofs.
            Some(target) if next <= head.end => Err(self.conflict(&target, next)),
            _ => Err(self.conflict(&pending, next)),
        }
    }

    /// Returns the checkpoint of the size that an upload names; `None` if it is not known, or
    /// smaller than the mirror checkpoint.
    fn target(
        &self,
        log: &MirroredLog,
        head: &UploadHead,
        pending: &Target,
        state: &State,
    ) -> Option<Target> {
        if head.end < state.mirrored_size() {
            return None;
        }
        let fits = |target: &Target| target.checkpoint.size == head.end;
        let recent = || {
            log.recent
                .lock()
                .iter()
                .rfind(|recent| fits(recent))
                .cloned()
        };
        let mirrored = || state.mirrored.as_ref().map(Target::of).filter(fits);
        let ticket = || self.tickets.open(&log.origin, &head.ticket).filter(fits);
        let pending = Some(pending.clone()).filter(fits);
        pending.or_else(recent).or_else(mirrored).or_else(ticket)
    }

    async fn pending(&self, log: &MirroredLog) -> Result<Target, UploadRefusal> {
        let recorded = self.witness.recorded(Slot::Pending, &log.origin).await?;
        let record = recorded.record.ok_or(UploadRefusal::NoPending)?;
        Ok(Target::of(&record))
    }

    fn conflict(&self, target: &Target, next: u64) -> UploadRefusal {
        UploadRefusal::Conflict(self.info(target, next))
    }

    fn info(&self, target: &Target, next: u64) -> MirrorInfo {
        MirrorInfo {
            size: target.checkpoint.size,
            next,
            ticket: self.tickets.seal(target),
        }
    }
}

impl Target {
    fn of(record: &Record) -> Self {
        Self {
            note: record.note.clone(),
            checkpoint: record.checkpoint.clone(),
        }
    }
}

impl State {
    fn mirrored_size(&self) -> u64 {
        let record = self.mirrored.as_ref();
        record.map_or(0, |record| record.checkpoint.size)
    }
}

/// An upload in progress. Its entries stay if the upload is dropped.
pub struct Upload<'m> {
    mirror: &'m Mirror,
    log: &'m MirroredLog,
    target: Target,
    /// Leaf hashes of the first bundle before the first entry.
    known: Vec<Hash>,
    /// Index of the next entry.
    next: u64,
    /// Whether packages are expected and none was stored.
    is_empty: bool,
}

impl Upload<'_> {
    /// Returns the indices of the entries in the next package; `None` after the last one.
    #[must_use]
    pub fn next_package(&self) -> Option<std::ops::Range<u64>> {
        package_leaves(self.next, self.target.checkpoint.size)
    }

    /// Verifies the [next](Self::next_package) package, and stores its entries.
    ///
    /// # Errors
    /// See [`UploadRefusal`].
    pub async fn add(&mut self, package: Package) -> Result<(), UploadRefusal> {
        let (log, Package { leaves, proof, .. }) = (self.log, &package);
        let hashes = bundle::leaf_hashes(&package.entries, &package.ends);
        let (root, size) = (&self.target.checkpoint.root, self.target.checkpoint.size);
        let wrong = |error| UploadRefusal::Proof {
            leaves: leaves.clone(),
            error,
        };
        let rounded = leaves.start - leaves.start % TILE_WIDTH;
        let outside = || wrong(ProofError::Length(proof.len()));
        let subtree = Subtree::new(rounded, leaves.end).ok_or_else(outside)?;
        let mut frontier = Frontier::new();
        self.known
            .drain(..)
            .chain(hashes.iter().copied())
            .for_each(|leaf| frontier.push(leaf));
        verify_subtree_consistency(subtree, &frontier.root(), size, root, proof).map_err(wrong)?;

        let mut guard = log.state.lock().await;
        let state = self.mirror.loaded(log, &mut guard).await?;
        let next = state.tree.size();
        if next < leaves.start {
            // The entries before this package were lost with a failure of the store.
            return Err(self.mirror.conflict(&self.target, next));
        }
        if next < leaves.end {
            let known = (next - leaves.start) as usize;
            let start = known.checked_sub(1).map_or(0, |last| package.ends[last]);
            let (entries, hashes) = (&package.entries[start..], &hashes[known..]);
            if let Err(error) = self.mirror.append(log, state, entries, hashes).await {
                *guard = None;
                return Err(error);
            }
        }
        (self.next, self.is_empty) = (leaves.end, false);
        Ok(())
    }

    /// Ends the upload. If the mirror has all entries, cosigns the checkpoint. `now` is in seconds
    /// since 1970.
    ///
    /// # Errors
    /// See [`UploadRefusal`].
    pub async fn finish(self, now: u64) -> Result<Uploaded, UploadRefusal> {
        if self.is_empty {
            return Err(UploadRefusal::Empty);
        }
        let (mirror, log, target) = (self.mirror, self.log, &self.target);
        let mut guard = log.state.lock().await;
        let state = mirror.loaded(log, &mut guard).await?;
        let next = state.tree.size();
        let is_complete = next >= target.checkpoint.size;
        if is_complete && target.checkpoint.size < state.mirrored_size() {
            return Err(mirror.conflict(&mirror.pending(log).await?, next));
        }
        let finished = if is_complete {
            mirror
                .commit(log, state, target, now)
                .await
                .map(Uploaded::Cosigned)
        } else {
            let saved = mirror.save_progress(log, state).await;
            saved.map(|()| Uploaded::Partial(mirror.info(target, next)))
        };
        if finished.is_err() {
            // The next request loads the durable entries.
            *guard = None;
        }
        finished
    }
}

impl MirroredLog {
    /// Returns the origin of the log.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the store of the tiles.
    #[must_use]
    pub fn assets(&self) -> &Arc<dyn Assets> {
        &self.assets
    }

    /// Returns the format of the entries.
    #[must_use]
    pub fn format(&self) -> EntryFormat {
        self.format
    }

    /// Returns the number of entries of the largest checkpoint of the log that the mirror has seen.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen.load(Relaxed)
    }

    fn see(&self, checkpoint: &Checkpoint) {
        self.seen.fetch_max(checkpoint.size, Relaxed);
    }

    /// Returns whether the state was loaded. Before, the mirror does not know its checkpoint.
    #[must_use]
    pub fn was_loaded(&self) -> bool {
        self.was_loaded.load(Relaxed)
    }

    /// Returns the checkpoint that the mirror has cosigned and published last.
    #[must_use]
    pub fn published(&self) -> Option<Arc<Published>> {
        self.published.lock().clone()
    }
}

/// Parses a checkpoint without signatures; the empty tree if there is none.
fn unsigned(stored: Option<Vec<u8>>, origin: &str) -> (u64, Hash) {
    let parsed =
        stored.and_then(|stored| Checkpoint::parse(std::str::from_utf8(&stored).ok()?).ok());
    match parsed.filter(|checkpoint| checkpoint.origin == origin) {
        Some(Checkpoint { size, root, .. }) => (size, root),
        None => (0, EMPTY_ROOT),
    }
}

/// Returns the full tiles that replace the partial tiles of a smaller tree.
fn superseded(old: u64, new: u64) -> impl Iterator<Item = Tile> {
    let levels = lucarne_tlog::RightEdge::tiles(old);
    let data = Tile::rightmost_partial(lucarne_tlog::Level::Data, old);
    levels
        .chain(data)
        .map(|tile| tile.full())
        .filter(move |full| full.covered_by(new))
}
