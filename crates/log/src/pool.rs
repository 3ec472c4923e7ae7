//! The pool, where entries wait for their round, and where the newest ones are known.
//!
//! An identity lives in exactly one of three places at a time, and moves
//! forward only: the open round, the rounds in memory, the dedup index. A
//! round leaves memory only after the index has it. A submission looks in
//! memory, then (without any lock held) in the index, and then joins the open
//! round under the lock. Between the second look and the third, a round may
//! have moved from memory to the index behind its back: `epoch` counts such
//! moves, and [`Pool::join`] sends the submission back to look again if the
//! count has changed. So no entry is sequenced twice.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lucarne_ct::{Entry, Fingerprint, Identity};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Fatal;

/// The outcome of a round.
pub(crate) type SequencingResult = Result<Sequenced, Abandoned>;

/// The place of a round's entries in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequenced {
    pub(crate) first_index: u64,
    pub(crate) timestamp_ms: u64,
}

/// The round failed. Its entries may or may not be in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned;

/// The outcome of a round, which all its entries wait for.
#[derive(Default)]
pub(crate) struct RoundOutcome {
    result: OnceLock<SequencingResult>,
    decided: Notify,
}

impl RoundOutcome {
    /// Tells everybody; the first result stands.
    pub(crate) fn decide(&self, result: SequencingResult) {
        if self.result.set(result).is_ok() {
            self.decided.notify_waiters();
        }
    }
}

/// A place in a round.
#[derive(Clone)]
pub(crate) struct Ticket {
    outcome: Arc<RoundOutcome>,
    position: u32,
}

impl Ticket {
    /// Waits until the round is published; gives index and timestamp.
    pub(crate) async fn wait(&self) -> Result<(u64, u64), Abandoned> {
        loop {
            let mut decided = std::pin::pin!(self.outcome.decided.notified());
            // Registered before the look, or a decision between the two
            // would be missed.
            decided.as_mut().enable();
            if let Some(result) = self.outcome.result.get() {
                return result.map(|sequenced| {
                    let index = sequenced.first_index + u64::from(self.position);
                    (index, sequenced.timestamp_ms)
                });
            }
            decided.await;
        }
    }
}

/// Entries that share a round.
#[derive(Default)]
struct OpenRound {
    entries: Vec<Arc<Entry>>,
    positions: HashMap<Identity, u32>,
    per_issuer: HashMap<Fingerprint, usize>,
    outcome: Arc<RoundOutcome>,
}

/// A round in flight, or published and not yet in the index.
struct RecentRound {
    positions: HashMap<Identity, u32>,
    outcome: Arc<RoundOutcome>,
}

#[derive(Default)]
struct Inner {
    open: OpenRound,
    recent: VecDeque<RecentRound>,
    epoch: u64,
    closed: bool,
    failure: Option<Fatal>,
    /// Entries per second that the last rounds drained.
    drained_per_second: f64,
}

/// The answer of memory about an identity.
pub(crate) enum Known {
    /// It is in the open round, or in one not yet in the index.
    Here(Ticket),
    /// Look in the index, then come back with this.
    NotHere(Epoch),
}

/// The time when memory was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// The outcome of joining the open round.
pub(crate) enum Joined {
    /// Wait with this ticket.
    At(Ticket),
    /// A round has moved to the index since memory was looked at: look again.
    LookAgain(Box<Entry>),
    /// No room.
    Full { retry_after_seconds: u32 },
    /// The log takes nothing more.
    Closed,
}

/// A round taken out of the pool to be sequenced.
pub(crate) struct SealedRound {
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) outcome: Arc<RoundOutcome>,
}

/// The pool of one log.
pub(crate) struct Pool {
    inner: Mutex<Inner>,
    capacity: usize,
    arrived: Notify,
    closing: Notify,
}

/// Longest Retry-After, in seconds: a guess further out is worth nothing.
const MAX_RETRY_AFTER: f64 = 60.0;

impl Pool {
    pub(crate) fn new(capacity: usize) -> Self {
        Pool {
            inner: Mutex::default(),
            capacity: capacity.max(1),
            arrived: Notify::new(),
            closing: Notify::new(),
        }
    }

    /// Looks for an identity in memory.
    pub(crate) fn find(&self, identity: &Identity) -> Known {
        let inner = self.inner.lock();
        match inner.find(identity) {
            Some(ticket) => Known::Here(ticket),
            None => Known::NotHere(Epoch(inner.epoch)),
        }
    }

    /// Joins the open round. `looked` is when memory was looked at before the
    /// index was: see the module's text.
    pub(crate) fn join(&self, entry: Entry, looked: Epoch) -> Joined {
        let mut inner = self.inner.lock();
        // A duplicate is never refused for want of room.
        if let Some(ticket) = inner.find(&entry.identity) {
            return Joined::At(ticket);
        }
        if inner.epoch != looked.0 {
            return Joined::LookAgain(Box::new(entry));
        }
        if inner.closed {
            return Joined::Closed;
        }
        if !inner.has_room(&entry, self.capacity) {
            return Joined::Full {
                retry_after_seconds: inner.retry_after(),
            };
        }
        let first = inner.open.entries.is_empty();
        let ticket = inner.open.push(entry);
        drop(inner);
        if first {
            self.arrived.notify_one();
        }
        Joined::At(ticket)
    }

    /// Waits until the open round has an entry, or the pool closes.
    pub(crate) async fn arrival(&self) {
        loop {
            let arrived = self.arrived.notified();
            {
                let inner = self.inner.lock();
                if inner.closed || !inner.open.entries.is_empty() {
                    return;
                }
            }
            arrived.await;
        }
    }

    /// Takes the open round out; its identities stay known.
    pub(crate) fn seal(&self) -> SealedRound {
        let mut inner = self.inner.lock();
        let open = std::mem::take(&mut inner.open);
        if !open.entries.is_empty() {
            inner.recent.push_back(RecentRound {
                positions: open.positions,
                outcome: open.outcome.clone(),
            });
        }
        SealedRound {
            entries: open.entries,
            outcome: open.outcome,
        }
    }

    /// Tells everybody who waits in the open round that there is none: their
    /// entries are nowhere.
    pub(crate) fn turn_away(&self) {
        let open = std::mem::take(&mut self.inner.lock().open);
        open.outcome.decide(Err(Abandoned));
    }

    /// The oldest round in memory is in the index now: forgets it here.
    pub(crate) fn forget_oldest(&self) {
        let mut inner = self.inner.lock();
        inner.epoch += 1;
        let forgotten = inner.recent.pop_front();
        drop(inner);
        // Freed outside the lock: it may hold thousands of identities.
        drop(forgotten);
    }

    /// Notes how fast the pool drains, for Retry-After.
    pub(crate) fn note_drain(&self, entries: usize, took: Duration) {
        let rate = entries as f64 / took.as_secs_f64().max(0.001);
        let mut inner = self.inner.lock();
        inner.drained_per_second = if inner.drained_per_second == 0.0 {
            rate
        } else {
            0.7 * inner.drained_per_second + 0.3 * rate
        };
    }

    /// Takes nothing more.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.arrived.notify_one();
        self.closing.notify_waiters();
    }

    /// Takes nothing more, for this reason.
    pub(crate) fn fail(&self, fatal: Fatal) {
        self.inner.lock().failure.get_or_insert(fatal);
        self.close();
    }

    /// Takes the reason why the pool was closed, if that was not on request.
    pub(crate) fn take_failure(&self) -> Option<Fatal> {
        self.inner.lock().failure.take()
    }

    /// Waits until the pool closes.
    pub(crate) async fn closing(&self) {
        let mut closing = std::pin::pin!(self.closing.notified());
        closing.as_mut().enable();
        if !self.is_closed() {
            closing.await;
        }
    }

    /// Returns whether nothing more is taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }

    /// Closes, and tells everybody who waits that their round failed.
    pub(crate) fn abandon(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.open.outcome.decide(Err(Abandoned));
        for recent in &inner.recent {
            recent.outcome.decide(Err(Abandoned));
        }
    }

    /// Entries waiting in the open round.
    pub(crate) fn depth(&self) -> usize {
        self.inner.lock().open.entries.len()
    }
}

impl Inner {
    fn find(&self, identity: &Identity) -> Option<Ticket> {
        let in_open = (&self.open.positions, &self.open.outcome);
        let in_recent = self.recent.iter().rev().map(|r| (&r.positions, &r.outcome));
        std::iter::once(in_open)
            .chain(in_recent)
            .find_map(|(positions, outcome)| {
                positions.get(identity).map(|&position| Ticket {
                    outcome: outcome.clone(),
                    position,
                })
            })
    }

    /// Up to half of the pool is for whoever comes first. Beyond, an issuing
    /// CA may hold no more than its equal share, and an eighth is kept for
    /// CAs that hold nothing yet: a backfill fills the pool only as far as
    /// others leave it room.
    fn has_room(&self, entry: &Entry, capacity: usize) -> bool {
        let depth = self.open.entries.len();
        if depth < capacity / 2 {
            return true;
        }
        let held = self
            .open
            .per_issuer
            .get(&issuing_ca(entry))
            .copied()
            .unwrap_or(0);
        let issuers = self.open.per_issuer.len() + usize::from(held == 0);
        let share = capacity / issuers.max(1);
        match held {
            0 => depth < capacity,
            held => depth < capacity - capacity / 8 && held < share,
        }
    }

    /// Seconds until what waits now has drained, rounded up.
    fn retry_after(&self) -> u32 {
        let depth = self.open.entries.len() as f64;
        let seconds = depth / self.drained_per_second.max(1.0);
        seconds.ceil().clamp(1.0, MAX_RETRY_AFTER) as u32
    }
}

impl OpenRound {
    fn push(&mut self, entry: Entry) -> Ticket {
        let position = self.entries.len() as u32;
        self.positions.insert(entry.identity, position);
        *self.per_issuer.entry(issuing_ca(&entry)).or_default() += 1;
        self.entries.push(Arc::new(entry));
        Ticket {
            outcome: self.outcome.clone(),
            position,
        }
    }
}

/// Returns who is counted: the CA that issued the entry, or the entry itself if it is
/// an accepted root.
fn issuing_ca(entry: &Entry) -> Fingerprint {
    entry
        .issuers
        .first()
        .map_or(Fingerprint(entry.identity.0), |issuer| issuer.fingerprint)
}
