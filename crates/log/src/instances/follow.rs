//! Following: an instance reads the data that another instance publishes, until it leads itself.
//!
//! ```text
//! open → follow ⇄ lead
//! ```
//!
//! A follower reads lock and lease several times a second. When the lock has changed, the follower
//! reads the published checkpoint and the new data tiles, and extends its tree. The follower
//! compares the result with the signed root before its clients see the new tree. A follower writes
//! nothing but the lease. The follower takes the lead when no other instance leads. Leading starts
//! at once, because tree and index have the state of the last poll.
//!
//! A follower reads the published checkpoint *before* the lock that it is compared with. The lock
//! is therefore never older than the published checkpoint, unless the lock was rolled back.
//!
//! `follow` has the loop of a follower. `growing` extends the tree of the follower, and `leading`
//! takes the lead.

use std::sync::Arc;
use std::time::Duration;

use lucarne_storage::{Lease, LeaseError};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::config::instances::Instances;
use crate::data::tree::Tree;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::Fatal;
use crate::error::inconsistency::StorageInconsistency;
use crate::index::catchup;
use crate::index::dedup::Dedup;
use crate::instances::forward::forward;
use crate::instances::leader_clock::LeaderClock;
use crate::instances::lease_watch::LeaseWatch;
use crate::recovery::known_checkpoints::{self, History};
use crate::recovery::recover;
use crate::sequence::term::Term;
use crate::shared::Shared;
use crate::status::clock_jump::{believable, next_timestamp};
use crate::status::state::State;
use crate::submit::forward_queue::{Forwarder, Leader};
use crate::submit::forward_wire::Pressure;
use crate::submit::session::Session;

mod growing;
mod leading;

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
    /// The timestamp of `committed`.
    signed_ms: u64,
    watch: LeaseWatch,
    leader_clock: LeaderClock,
    /// The last attempt to lead, if it failed.
    failed: Option<FailedLead>,
}

/// A failed attempt to lead.
struct FailedLead {
    problem: String,
    at: Instant,
    /// The pause before the next attempt, in which another instance can lead.
    pause: Duration,
}

/// First pause after a failed attempt to lead. The pause doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause after a failed attempt to lead.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The result of one read of lock and lease.
struct Looked {
    ended: Option<Ended>,
    /// The reason why this instance cannot lead, or cannot follow, as text for operators.
    trouble: Option<String>,
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
/// If the log cannot be opened, followed or sequenced, or if another instance replaces this leader.
/// In the last case, the caller reopens the log at once.
pub(crate) async fn take_part(log: Arc<Shared>, instances: Instances) -> Result<(), Fatal> {
    let opened = tokio::select! {
        opened = open(&log) => opened?,
        // Updating an index may take long, so closing the log must cancel the update.
        () = log.wake.notified() => return Ok(()),
    };
    let (published, tree, dedup) = opened;
    log.index.note(&dedup);
    let session = Arc::new(Session::new(&log.config, dedup)?);
    let (forwarder, queued) = Forwarder::new(log.config.rounds.pool_size, &log.config.rounds.lanes);
    let forwarder = Arc::new(forwarder);
    session.follow(forwarder.clone());
    log.submissions.session.store(Some(session.clone()));
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
        signed_ms: 0,
        leader_clock: LeaderClock::default(),
        failed: None,
    };
    if let Some(published) = published {
        follower.show(published);
    }
    tracing::info!(
        log = log.config.shortname,
        size = follower.tree.size(),
        "following"
    );
    let fail = |fatal| session.pool.fail(fatal);
    let ended = tokio::select! {
        ended = follower.take_turns() => ended,
        never = catchup::attend(&log.index, &session.dedup, fail, &opened_at) => match never {},
        // The session has the sender of the queue, so this branch does not end before the session.
        () = forward(log.clone(), queued) => Ok(()),
    };
    log.instance.leader.send_replace(None);
    log.note_index(&session);
    ended?;
    let flushed = spawn_blocking(move || session.dedup.flush());
    flushed.await.map_err(panicked)?
}

/// Reads the published checkpoint and updates the index to it. Writes nothing else.
async fn open(log: &Shared) -> Result<(Option<VerifiedCheckpoint>, Tree, Arc<Dedup>), Fatal> {
    // Other instances may continue at the same time. The known checkpoints are therefore read
    // first, so that the published checkpoint is not older.
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
        // The first checkpoint of a new log is not published yet, or the checkpoint was lost: the
        // leader publishes it.
        None => Tree::empty(),
    };
    log.not_back(tree.size())?;
    let history = History::of(log.reader.tiles(), &tree.edge);
    let (signed_ms, name) = (tree.timestamp_ms, &log.config.shortname);
    history.hold_against_all(&known, signed_ms, name).await?;
    let dedup = catchup::open(&log.index, &tree).await?;
    Ok((published, tree, dedup))
}

impl Follower {
    async fn take_turns(&mut self) -> Result<(), Fatal> {
        while let Ended::Leads(term) = self.follow().await? {
            let led = self.lead(&term).await;
            if led.as_ref().is_err_and(|fatal| !fatal.is_overtaken()) {
                term.release().await;
            }
            match led {
                // The attempt failed before this instance led: it goes on following.
                Err(fatal) if fatal.is_passing() && !self.session.pool.is_closed() => {
                    self.note_failed(&fatal);
                }
                led => {
                    led?;
                    self.failed = None;
                }
            }
            // This instance no longer leads: submissions in progress go to the new leader.
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
            if self.log.config.retired(self.log.status.now_ms()) {
                return Ok(Ended::Closed);
            }
            let closing = self.log.status.is_closing();
            let is_idle = !self.log.submissions.are_in_flight();
            if closing && is_idle && was_idle {
                return Ok(Ended::Closed);
            }
            was_idle = closing && is_idle;
            let behind = match self.look(!closing).await {
                Ok(looked) => {
                    if let Some(ended) = looked.ended {
                        return Ok(ended);
                    }
                    self.log.status.note_trouble(looked.trouble);
                    let published = self.published.as_ref();
                    published.is_none_or(|published| !published.extends(&self.committed))
                }
                Err(fatal) if fatal.is_passing() => {
                    self.watch.note_failure();
                    self.log.status.note_trouble(Some(fatal.to_string()));
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
                () = self.log.instance.nudge.notified() => {}
                () = self.log.wake.notified() => {}
            }
        }
    }

    /// Reads lock and lease once, and applies the changes. Takes the lead if no other instance
    /// leads and `may` is true.
    async fn look(&mut self, may: bool) -> Result<Looked, Fatal> {
        let (at, id) = (Instant::now(), self.log.config.key.log_id());
        let lock = &*self.log.lock;
        let (committed, lease) = tokio::join!(lock.load(&id.0), Lease::load(lock, &id.0));
        let committed = committed?;
        let mut signed_ms = None;
        if committed.as_ref() != Some(&self.committed) {
            let head = self.log.committed_is(committed).await?;
            if let Some(published) = &self.published {
                recover::not_newer(published, &head, &*self.log.assets, lock)?;
            }
            self.committed = head.note.to_vec();
            self.signed_ms = head.timestamp_ms;
            signed_ms = Some(head.timestamp_ms);
        }
        let wall_ms = self.log.config.clock.now_ms();
        let clocks = (wall_ms, Instant::now());
        self.leader_clock.note(at, signed_ms, clocks);
        let (lease, mut trouble) = match lease {
            Err(unreadable @ LeaseError::Unreadable { .. }) => (None, Some(unreadable.to_string())),
            lease => (lease?, self.wrong_clock(clocks).await),
        };
        let lapsed = self.watch.note(&self.committed, lease.as_ref(), at);
        let held = lease.as_ref().and_then(|lease| lease.holder);
        let is_free = lapsed || held.is_none_or(|holder| holder == self.log.instance.holder);
        let leader = lease.as_ref().filter(|_| !is_free);
        self.set_leader(leader);
        let is_barred = trouble.is_some();
        trouble = trouble.or_else(|| match leader {
            Some(leader) => self.same_address(leader),
            None => self.failed.as_ref().map(|failed| failed.problem.clone()),
        });
        let failed = self.failed.as_ref();
        let pauses = failed.is_some_and(|failed| failed.at.elapsed() < failed.pause);
        let another = leader.is_some();
        let awaits = self
            .log
            .instance
            .slowness
            .lock()
            .awaits_another(another, at);
        let may = may && !is_barred && !pauses && !awaits;
        if may
            && is_free
            && let Some(term) = self.take(lease).await?
        {
            let ended = Some(Ended::Leads(Arc::new(term)));
            return Ok(Looked { ended, trouble });
        }
        let published = self.published.as_ref();
        let is_newest = published.is_some_and(|published| published.extends(&self.committed));
        let ended = if is_newest || self.advance().await? {
            None
        } else {
            Some(Ended::Behind)
        };
        Ok(Looked { ended, trouble })
    }

    /// Returns the reason why this instance must not sign with its clock, as text that changes
    /// seldom.
    async fn wrong_clock(&self, (wall_ms, now): (u64, Instant)) -> Option<String> {
        if let Some(problem) = self.leader_clock.problem(wall_ms, now) {
            return Some(problem);
        }
        if next_timestamp(wall_ms, self.signed_ms).is_err() {
            return Some(
                "the clock of this instance is more than 10 s behind the newest checkpoint, so \
                 this instance does not take the lead: correct the clock"
                    .into(),
            );
        }
        if self.log.config.clock.is_confirmed() {
            return None;
        }
        if let Err(unconfirmed) = believable(wall_ms, self.signed_ms) {
            return Some(unconfirmed.to_string());
        }
        let now = (wall_ms, now.into_std());
        match self.log.confirm_clock(now, self.signed_ms).await {
            Err(Fatal::AheadOfStore { place, .. }) => Some(format!(
                "the clock of this instance is more than a minute ahead of the clock of {place}, \
                 so this instance does not take the lead: correct the wrong clock"
            )),
            _ => None,
        }
    }

    /// Returns the problem of another instance that leads with the address of this instance.
    fn same_address(&self, leader: &Lease) -> Option<String> {
        let own = &self.instances.address;
        (leader.address == *own && self.watch.holder_lives()).then(|| {
            format!(
                "the leading instance has the same `address`, {own}: this instance \
                 cannot forward submissions: configure another `address` for each instance"
            )
        })
    }

    /// Records a failed attempt to lead.
    fn note_failed(&mut self, fatal: &Fatal) {
        let log = &self.log.config.shortname;
        tracing::warn!(log, error = %fatal, "cannot take the lead: following");
        let last = self.failed.as_ref().map(|failed| failed.pause);
        self.failed = Some(FailedLead {
            problem: format!("cannot take the lead: {fatal}"),
            at: Instant::now(),
            pause: last.map_or(FIRST_PAUSE, |last| (2 * last).min(LONGEST_PAUSE)),
        });
    }

    fn show(&mut self, published: VerifiedCheckpoint) {
        self.log.show(&self.tree, &published.note);
        // The leader may have published any issuer.
        self.log.reader.recovered();
        self.published = Some(published);
    }

    /// Publishes the address of the leader to the rest of this process.
    fn set_leader(&self, lease: Option<&Lease>) {
        let known = lease.map(|lease| Leader {
            address: lease.address.clone(),
            epoch: lease.epoch,
        });
        let is_another = self.log.instance.leader.send_if_modified(|leader| {
            let changed = *leader != known;
            leader.clone_from(&known);
            changed
        });
        if is_another {
            // The last leader's refusal and pressure no longer apply.
            self.log.status.note_refusal(None);
            self.forwarder.note(Pressure::default());
        }
        let leader = known.map(|leader| leader.address);
        let state = State::Following { leader };
        if self.log.status.state() != state {
            self.log.status.set_state(state);
        }
    }
}

impl Shared {
    /// Rejects a tree that is smaller than the tree that clients of this process have seen.
    fn not_back(&self, size: u64) -> Result<(), Fatal> {
        match self.reader.published() {
            Some(served) if served.size > size => {
                Err(Fatal::from(StorageInconsistency::BehindReaders {
                    storage: self.assets.location(),
                    size,
                    served: served.size,
                }))
            }
            _ => Ok(()),
        }
    }
}

fn panicked(error: tokio::task::JoinError) -> Fatal {
    Fatal::Internal(error.to_string())
}
