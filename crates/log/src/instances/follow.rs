//! Following: an instance reads the data that another instance publishes, until it leads itself.
//!
//! ```text
//! open → follow ⇄ lead
//! ```
//!
//! A follower reads lock and lease several times a second. When the lock has changed, the follower
//! reads the published checkpoint and the new data tiles, and extends its tree. It compares the
//! result with the signed root before its clients see the new tree. A follower writes nothing but
//! the lease. It takes the lead when no other instance leads. It can start at once, because its
//! tree and its index have the state of the last poll.
//!
//! A follower reads the published checkpoint *before* the lock that it is compared with. The lock
//! is therefore never older than the published checkpoint, unless the lock was rolled back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::{StreamExt, pin_mut};
use lucarne_ct::{Identity, TileLeafError, TileLeafRef};
use lucarne_storage::{Lease, LeaseError};
use lucarne_tlog::{Level, TILE_WIDTH, Tile, leaf_hash};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::error::{Fatal, ReadError};
use crate::index::catchup;
use crate::index::dedup::{Dedup, LeafPosition, TreeHead};
use crate::instances::config::Instances;
use crate::instances::forward::forward;
use crate::instances::forward::queue::{Forwarder, Leader};
use crate::instances::forward::wire::Pressure;
use crate::instances::lease_watch::LeaseWatch;
use crate::read::read_ahead::read_ahead;
use crate::read::stored_tiles;
use crate::recovery::known_checkpoints;
use crate::recovery::recover::{self, Recovered};
use crate::recovery::session::Session;
use crate::sequence::sequencer::Sequencer;
use crate::sequence::term::{AGAIN, Term};
use crate::sequence::tree::Tree;
use crate::sequence::verified_checkpoint::VerifiedCheckpoint;
use crate::shared::Shared;
use crate::status::state::State;

/// Maximum number of entries that a follower reads at once. The follower keeps 50 bytes of each
/// entry until the root is verified. An instance that is further behind reopens the log, which has
/// no such limit.
const MOST_AT_ONCE: u64 = 1 << 18;
/// Attempts to read lock, journal and storage while another instance still changes them.
const ATTEMPTS: usize = 5;

/// An instance of a log with several instances, while the instance does not lead.
struct Follower {
    log: Arc<Shared>,
    instances: Instances,
    session: Arc<Session>,
    forwarder: Arc<Forwarder>,
    tree: Arc<Tree>,
    /// The newest published checkpoint; the tree has its size.
    published: Option<VerifiedCheckpoint>,
    /// The lock's checkpoint at the last read.
    committed: Vec<u8>,
    watch: LeaseWatch,
}

/// The reasons why following ends.
enum Ended {
    /// This process has the lease.
    Leads(Arc<Term>),
    /// The log is closed or retired.
    Closed,
    /// The instance is too far behind, and reopens the log.
    Behind,
}

/// Opens the log as one of several instances, then follows and leads in turn until the log is
/// closed or fails.
///
/// # Errors
/// Includes the case that another instance replaces this leader: the caller then reopens the log at
/// once.
pub(crate) async fn take_part(log: Arc<Shared>, instances: Instances) -> Result<(), Fatal> {
    let opened = tokio::select! {
        opened = open(&log) => opened?,
        // Updating an index may take long, so closing the log must cancel the update.
        () = log.wake.notified() => return Ok(()),
    };
    let (published, tree, dedup) = opened;
    log.note_dedup(&dedup);
    let session = Arc::new(Session::new(&log.config, dedup)?);
    let (forwarder, queued) = Forwarder::new(log.config.pool_size, &log.config.lanes);
    let forwarder = Arc::new(forwarder);
    session.follow(forwarder.clone());
    log.session.store(Some(session.clone()));
    let poll = instances.poll();
    let opened_at = tree.clone();
    let mut follower = Follower {
        watch: LeaseWatch::new(instances.lease, poll),
        log: log.clone(),
        instances,
        session: session.clone(),
        forwarder,
        tree: Arc::new(tree),
        published: None,
        committed: Vec::new(),
    };
    if let Some(published) = published {
        follower.show(published);
    }
    tracing::info!(
        log = log.config.shortname,
        size = follower.tree.size(),
        "following"
    );
    let ended = tokio::select! {
        ended = follower.take_turns() => ended,
        never = catchup::attend(&log, &session, &opened_at) => match never {},
        // The session holds the sending end of the queue.
        () = forward(log.clone(), queued) => Ok(()),
    };
    log.leader.send_replace(None);
    log.note_index(&session);
    ended?;
    let flushed = spawn_blocking(move || session.dedup.flush());
    flushed.await.map_err(panicked)?
}

/// Reads the published checkpoint and updates the index to it. Writes nothing else.
async fn open(log: &Shared) -> Result<(Option<VerifiedCheckpoint>, Tree, Arc<Dedup>), Fatal> {
    // Other instances may continue at the same time. The known checkpoints are therefore read
    // before the published checkpoint, which is then not older.
    let known = known_checkpoints::ask(&log.config).await;
    let published = recover::published(&log.config, &*log.assets).await?;
    let committed = log.committed().await?;
    let tree = match &published {
        Some(published) => {
            recover::not_newer(published, &committed, &*log.assets, &*log.lock)?;
            let mut tree = recover::published_tree(published, &*log.assets).await?;
            tree.timestamp_ms = published.timestamp_ms;
            tree
        }
        // The log was created and not published yet, or its checkpoint was lost: the leader
        // publishes it.
        None => Tree::empty(),
    };
    log.not_back(tree.size())?;
    log.hold_against(&tree, &known).await?;
    let dedup = catchup::open(log, &tree).await?;
    Ok((published, tree, dedup))
}

impl Follower {
    async fn take_turns(&mut self) -> Result<(), Fatal> {
        while let Ended::Leads(term) = self.follow().await? {
            let led = self.lead(&term).await;
            if led.as_ref().is_err_and(|fatal| !fatal.is_overtaken()) {
                term.release().await;
            }
            led?;
            // This instance has handed its lease over: submissions in progress go to the new
            // leader.
            self.session.follow(self.forwarder.clone());
            self.tree = self.log.reader.tree().unwrap_or_else(|| self.tree.clone());
            self.set_leader(None);
        }
        Ok(())
    }

    /// Follows until this instance leads or the log is closed.
    async fn follow(&mut self) -> Result<Ended, Fatal> {
        let mut was_idle = false;
        loop {
            if self.log.config.retired(self.log.now_ms()) {
                return Ok(Ended::Closed);
            }
            let closing = self.log.closing.load(Ordering::SeqCst);
            let is_idle = self.log.submitting.load(Ordering::SeqCst) == 0;
            if closing && is_idle && was_idle {
                return Ok(Ended::Closed);
            }
            was_idle = closing && is_idle;
            let behind = match self.look(!closing).await {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) => {
                    let published = self.published.as_ref();
                    published.is_none_or(|published| published.note != self.committed)
                }
                Err(fatal) if fatal.is_passing() => {
                    self.watch.note_failure();
                    self.log.note_trouble(Some(fatal.to_string()));
                    true
                }
                Err(fatal) => return Err(fatal),
            };
            let pause = if behind {
                self.instances.poll() / 5
            } else {
                self.instances.poll()
            };
            tokio::select! {
                // Polling is necessary, because a lock does not report changes.
                () = sleep(pause) => {}
                () = self.log.nudge.notified() => {}
                () = self.log.wake.notified() => {}
            }
        }
    }

    /// Reads lock and lease once, and applies the changes. Takes the lead if no other instance
    /// leads and `may` is true.
    async fn look(&mut self, may: bool) -> Result<Option<Ended>, Fatal> {
        let (at, id) = (Instant::now(), self.log.config.key.log_id());
        let lock = &*self.log.lock;
        let (committed, lease) = tokio::join!(lock.load(&id.0), Lease::load(lock, &id.0));
        let committed = committed?;
        if committed.as_ref() != Some(&self.committed) {
            let head = self.log.committed_is(committed).await?;
            if let Some(published) = &self.published {
                recover::not_newer(published, &head, &*self.log.assets, lock)?;
            }
            self.committed = head.note.to_vec();
        }
        let (lease, may) = match lease {
            Err(unreadable @ LeaseError::Unreadable { .. }) => {
                self.log.note_trouble(Some(unreadable.to_string()));
                (None, false)
            }
            lease => {
                self.log.note_trouble(None);
                (lease?, may)
            }
        };
        let lapsed = self.watch.note(&self.committed, lease.as_ref(), at);
        let held = lease.as_ref().and_then(|lease| lease.holder);
        let is_free = lapsed || held.is_none_or(|holder| holder == self.log.holder);
        let leader = lease.as_ref().filter(|_| !is_free);
        self.set_leader(leader);
        if may
            && is_free
            && let Some(term) = self.take(lease).await?
        {
            return Ok(Some(Ended::Leads(Arc::new(term))));
        }
        let published = self.published.as_ref();
        if published.is_some_and(|published| published.note == self.committed) {
            return Ok(None);
        }
        if self.advance().await? {
            Ok(None)
        } else {
            Ok(Some(Ended::Behind))
        }
    }

    /// Takes the lease; returns `None` if another instance was faster.
    async fn take(&self, lease: Option<Lease>) -> Result<Option<Term>, Fatal> {
        let (log, at) = (&self.log, Instant::now());
        let (lock, id) = (&*log.lock, log.config.key.log_id());
        let taken = Lease {
            holder: Some(log.holder),
            address: self.instances.address.clone(),
            epoch: lease.as_ref().map_or(1, |lease| lease.epoch + 1),
            renewal: 0,
        };
        let result = match &lease {
            None => taken.create(lock, &id.0).await,
            Some(lease) => lease.replace(&taken, lock, &id.0).await,
        };
        match result {
            Err(LeaseError::Lost) => return Ok(None),
            result => result?,
        }
        tracing::info!(
            log = log.config.shortname,
            epoch = taken.epoch,
            from = lease.map(|lease| lease.address),
            "took the lease"
        );
        let instances = self.instances.clone();
        Ok(Some(Term::begin(log.clone(), instances, taken, at)))
    }

    /// Extends the tree to the published checkpoint. Returns `false` if the checkpoint is too far
    /// ahead.
    async fn advance(&mut self) -> Result<bool, Fatal> {
        let log = self.log.clone();
        let Some(published) = recover::published(&log.config, &*log.assets).await? else {
            let location = log.assets.location();
            let problem = format!("{location} has no readable checkpoint");
            return Err(Fatal::Away(problem));
        };
        let (head, tree) = (published.head(), &self.tree);
        let forked = head.size == tree.size() && head.root != tree.root;
        if head.size < tree.size() || head.timestamp_ms < tree.timestamp_ms || forked {
            return Err(Fatal::Inconsistent(format!(
                "{} publishes a checkpoint of {} entries with the root {}, signed at {}, and this \
                 instance has seen {} entries with the root {}, signed at {}: storage was rolled \
                 back, or another process publishes there. Restore the newest storage",
                log.assets.location(),
                head.size,
                head.root,
                head.timestamp_ms,
                tree.size(),
                tree.root,
                tree.timestamp_ms,
            )));
        }
        if head.size - tree.size() > MOST_AT_ONCE {
            return Ok(false);
        }
        let head = TreeHead {
            size: head.size,
            root: head.root,
        };
        let grown = grow(&log, tree.clone(), head).await?;
        self.take_up(grown, Some(published)).await?;
        Ok(true)
    }

    /// Takes over an extended tree: first clients see it, then the index gets its entries.
    async fn take_up(
        &mut self,
        (mut tree, entries): (Tree, Vec<(Identity, LeafPosition)>),
        published: Option<VerifiedCheckpoint>,
    ) -> Result<(), Fatal> {
        if let Some(published) = &published {
            tree.timestamp_ms = published.timestamp_ms;
        }
        let head = tree.head();
        self.tree = Arc::new(tree);
        if let Some(published) = published {
            self.show(published);
        }
        if entries.is_empty() {
            return Ok(());
        }
        let index = self.session.dedup.clone();
        let indexed = spawn_blocking(move || index.extend(entries.into_iter(), head.size, head));
        indexed.await.map_err(panicked)??;
        self.log
            .metrics
            .dedup_indexed
            .set(self.session.dedup.known() as i64);
        Ok(())
    }

    fn show(&mut self, published: VerifiedCheckpoint) {
        self.log.show(&self.tree, &published.note);
        self.published = Some(published);
    }

    /// Publishes the address of the leader to the rest of this process.
    fn set_leader(&self, lease: Option<&Lease>) {
        let known = lease.map(|lease| Leader {
            address: lease.address.clone(),
            epoch: lease.epoch,
        });
        let is_another = self.log.leader.send_if_modified(|leader| {
            let changed = *leader != known;
            leader.clone_from(&known);
            changed
        });
        if is_another {
            // The last leader's refusal and pressure no longer apply.
            self.log.note_refusal(None);
            self.forwarder.note(Pressure::default());
        }
        let leader = known.map(|leader| leader.address);
        let state = State::Following { leader };
        if *self.log.state.lock() != state {
            self.log.set_state(state);
        }
    }

    /// Leads: sequences until the log is closed, or another instance becomes the leader.
    async fn lead(&mut self, term: &Arc<Term>) -> Result<(), Fatal> {
        let session = self.session.clone();
        let leading = async {
            let recovered = self.recover().await?;
            let (log, head) = (self.log.clone(), recovered.tree.head());
            if head.size != self.tree.size() {
                let grown = grow(&log, self.tree.clone(), head).await?;
                self.take_up(grown, None).await?;
            }
            log.reader.recovered();
            let (opened, session) = (log.clone(), self.session.clone());
            let sequencer = Sequencer::new(log, session.clone(), recovered, Some(term.clone()));
            sequencer
                .run(move || opened.opened(session, head.size))
                .await
        };
        tokio::select! {
            led = leading => led,
            never = term.keep(&session.pool) => match never {},
        }
    }

    /// Recovers like at any start. The previous leader may not have noticed its loss yet; if the
    /// lock changes during recovery, recovery starts again.
    async fn recover(&self) -> Result<Recovered, Fatal> {
        let (log, id) = (&self.log, self.log.config.key.log_id());
        for _ in 0..ATTEMPTS {
            let before = log.lock.load(&id.0).await?;
            match log.recover(None).await {
                Err(fatal) if log.lock.load(&id.0).await? != before => {
                    let log = &log.config.shortname;
                    tracing::info!(log, %fatal, "another instance has signed in the meantime");
                    // The other instance may not have finished publishing.
                    sleep(AGAIN).await;
                }
                recovered => return recovered,
            }
        }
        Err(Fatal::Deposed { by: None })
    }
}

impl Shared {
    /// Rejects a tree that is smaller than the tree that clients of this process have seen.
    fn not_back(&self, size: u64) -> Result<(), Fatal> {
        match self.reader.published() {
            Some(served) if served.size > size => Err(Fatal::Inconsistent(format!(
                "{} publishes {size} entries, and this process has served {} from there: storage \
                 was rolled back. Restore the newest one",
                self.assets.location(),
                served.size
            ))),
            _ => Ok(()),
        }
    }
}

/// Extends the tree to `head` with tiles from storage, and returns its new entries as well.
///
/// # Errors
/// [`Fatal::Away`] if tiles are missing or unreadable, or if their root is not the root of `head`.
async fn grow(
    log: &Shared,
    tree: Arc<Tree>,
    head: TreeHead,
) -> Result<(Tree, Vec<(Identity, LeafPosition)>), Fatal> {
    let location = log.assets.location();
    let mut grown = Tree::clone(&tree);
    let mut entries = Vec::new();
    let tiles = (tree.size() / TILE_WIDTH..head.size.div_ceil(TILE_WIDTH)).filter_map(|index| {
        let width = (head.size - index * TILE_WIDTH).min(TILE_WIDTH);
        Tile::new(Level::Data, index, width as u16)
    });
    let reads = tiles
        .filter(|tile| tile.end_leaf() > tree.size())
        .map(|tile| async move { (tile, stored_tiles::tile(&*log.assets, tile).await) });
    let length = |(_, read): &(Tile, Result<Option<Bytes>, ReadError>)| match read {
        Ok(Some(bytes)) => bytes.len(),
        _ => 0,
    };
    let reads = read_ahead(reads, length);
    pin_mut!(reads);
    while let Some((tile, read)) = reads.next().await {
        let away = |problem: String| Fatal::Away(format!("{location}/{}: {problem}", tile.path()));
        let bytes = read.map_err(|error| away(error.to_string()))?;
        let bytes = bytes.ok_or_else(|| away("is missing".into()))?;
        let appended = spawn_blocking(move || append(grown, tile, &bytes));
        let appended = appended.await.map_err(panicked)?;
        let (with_tile, mut found) = appended.map_err(|error| away(error.to_string()))?;
        grown = with_tile;
        entries.append(&mut found);
    }
    if grown.head() == head {
        Ok((grown, entries))
    } else {
        Err(Fatal::Away(format!(
            "the data tiles in {location}: expected {} entries with the root {}, as signed, found \
             {} entries with the root {}: one of the last tiles is damaged",
            head.size,
            head.root,
            grown.size(),
            grown.root
        )))
    }
}

/// The reasons why a data tile does not extend the tree.
#[derive(Debug, thiserror::Error)]
enum TileError {
    #[error("does not begin with the entries that this instance followed")]
    Foreign,
    #[error(transparent)]
    Leaf(#[from] TileLeafError),
}

/// Appends those entries of a data tile that the tree does not have.
fn append(
    mut tree: Tree,
    tile: Tile,
    bytes: &Bytes,
) -> Result<(Tree, Vec<(Identity, LeafPosition)>), TileError> {
    if !bytes.starts_with(&tree.data.bytes) {
        return Err(TileError::Foreign);
    }
    let fresh = bytes.slice(tree.data.bytes.len()..);
    let (first, mut rest, mut leaf_bytes) = (tree.size(), &fresh[..], Vec::new());
    let (mut hashes, mut ends, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    while !rest.is_empty() && first + (hashes.len() as u64) < tile.end_leaf() {
        let leaf = TileLeafRef::read(&mut rest)?;
        leaf_bytes.clear();
        leaf.merkle_tree_leaf(&mut leaf_bytes);
        let place = LeafPosition {
            index: first + hashes.len() as u64,
            timestamp_ms: leaf.timestamp,
        };
        entries.push((leaf.identity(), place));
        hashes.push(leaf_hash(&leaf_bytes));
        ends.push((fresh.len() - rest.len()) as u32);
    }
    tree.append_leaves(&hashes);
    tree.append_data(first, &fresh, &ends);
    Ok((tree, entries))
}

fn panicked(error: tokio::task::JoinError) -> Fatal {
    Fatal::Internal(error.to_string())
}
