//! The pool: entries wait here for their round, and the newest entries are kept here.
//!
//! An identity is in exactly one of three places at a time, and moves only forward: the waiting
//! entries, the rounds in memory, the dedup index. A round leaves memory only after the index has
//! all entries of the round. A submission is looked up in memory, then in the index without a lock,
//! and then joins the waiting entries under the lock. Between the lookup in memory and the join, a
//! round may move from memory to the index unseen. `epoch` counts these moves, and [`Pool::join`]
//! requests another lookup if the count has changed. No entry is therefore sequenced twice.
//!
//! There are two [lanes](Lane). A round takes all waiting fresh entries. It then takes old entries
//! in order of arrival, as many as [`RoundCost`] allows; the rest wait for the next round. Old
//! entries are limited by their share of the pool, by their rate, and by their waiting time. As
//! long as old entries wait, each round takes some of them.

mod queue;
mod rate_limit;
mod round_cost;
mod ticket;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::{Entry, Identity};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::queue::{Amount, Queue, Waiting};
use self::rate_limit::{MAX_RETRY_AFTER, RateLimit};
use self::round_cost::RoundCost;
pub(crate) use self::ticket::{Abandoned, RoundOutcome, Sequenced, Ticket};
use crate::config::lane::{Lane, LaneConfig};
use crate::error::Fatal;
use crate::submit::forward_wire::Pressure;

/// Bytes of the pool for each of its entries: four times the size of a typical entry with its
/// chain. Only unusual entries reach the limit of bytes before the limit of entries.
const BYTES_PER_ENTRY: usize = 16 << 10;
/// Maximum expected waiting time of an accepted old entry. Its client may not wait longer.
const MAX_OLD_WAIT: Duration = Duration::from_secs(10);

struct Inner {
    fresh: Queue,
    old: Queue,
    old_rate: Option<RateLimit>,
    /// The tickets of waiting entries and of the rounds in memory.
    tickets: HashMap<Identity, Ticket>,
    /// The rounds in memory, oldest first: in flight, or published and not yet in the index.
    sealed: VecDeque<Vec<Identity>>,
    /// The time at which the current round was sealed; `None` between two rounds.
    under_way: Option<Instant>,
    cost: RoundCost,
    epoch: u64,
    closed: bool,
    failure: Option<Fatal>,
}

/// The result of a lookup in memory.
pub(crate) enum Known {
    /// The entry waits, or is in a round that is not yet in the index.
    Here(Ticket),
    /// The entry is not in memory. The caller looks in the index, then passes this epoch to
    /// [`Pool::join`].
    NotHere(Epoch),
}

/// The epoch of a lookup in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// The result of joining the waiting entries.
pub(crate) enum Joined {
    /// The entry waits; the ticket returns its index.
    At(Ticket),
    /// A round has moved to the index since the lookup in memory. The caller must look up the entry
    /// again.
    LookAgain(Box<Entry>),
    /// The lane has no room.
    Full { retry_after_seconds: u32 },
    /// The pool accepts no more entries.
    Closed,
}

/// A round from the pool for the sequencer: fresh entries, then old entries.
pub(crate) struct SealedRound {
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) outcome: RoundOutcome,
    /// The number of fresh entries.
    pub(crate) fresh: usize,
    /// The arrival time of each entry.
    since: Vec<Instant>,
}

impl SealedRound {
    fn of(fresh: Vec<Waiting>, old: Vec<Waiting>) -> Self {
        let (first, count) = (fresh.len(), fresh.len() + old.len());
        let mut round = SealedRound {
            entries: Vec::with_capacity(count),
            outcome: RoundOutcome(Vec::with_capacity(count)),
            fresh: first,
            since: Vec::with_capacity(count),
        };
        for one in fresh.into_iter().chain(old) {
            round.entries.push(one.entry);
            round.outcome.0.push(one.ticket);
            round.since.push(one.since);
        }
        round
    }

    /// Returns the lane and the waiting time until `now` for each entry.
    pub(crate) fn waits(&self, now: Instant) -> impl Iterator<Item = (Lane, Duration)> {
        let lanes = (0..).map(|n| {
            if n < self.fresh {
                Lane::Fresh
            } else {
                Lane::Old
            }
        });
        let waits = self
            .since
            .iter()
            .map(move |since| now.duration_since(*since));
        lanes.zip(waits)
    }
}

/// The pool of one log.
pub(crate) struct Pool {
    inner: Mutex<Inner>,
    most: Amount,
    most_old: Amount,
    arrived: Notify,
    closing: Notify,
}

impl Pool {
    /// Creates a pool for at most `capacity` entries.
    pub(crate) fn new(capacity: usize, lanes: &LaneConfig) -> Self {
        let capacity = capacity.max(1);
        let amount = |entries: usize| Amount {
            entries,
            bytes: entries.saturating_mul(BYTES_PER_ENTRY),
        };
        let now = Instant::now();
        Pool {
            inner: Mutex::new(Inner {
                fresh: Queue::default(),
                old: Queue::default(),
                old_rate: lanes.old_rate.map(|rate| RateLimit::new(rate, now)),
                tickets: HashMap::new(),
                sealed: VecDeque::new(),
                under_way: None,
                cost: RoundCost::default(),
                epoch: 0,
                closed: false,
                failure: None,
            }),
            most: amount(capacity),
            most_old: amount(lanes.old_share(capacity)),
            arrived: Notify::new(),
            closing: Notify::new(),
        }
    }

    /// Looks up an identity in memory.
    pub(crate) fn find(&self, identity: &Identity) -> Known {
        let inner = self.inner.lock();
        match inner.tickets.get(identity) {
            Some(ticket) => Known::Here(ticket.clone()),
            None => Known::NotHere(Epoch(inner.epoch)),
        }
    }

    /// Adds an entry to the waiting entries of this lane. `looked` is the epoch of the lookup in
    /// memory, which precedes the lookup in the index: see the documentation of the module.
    pub(crate) fn join(&self, entry: Entry, lane: Lane, looked: Epoch) -> Joined {
        self.join_at(entry, lane, looked, Instant::now())
    }

    fn join_at(&self, entry: Entry, lane: Lane, looked: Epoch, now: Instant) -> Joined {
        let mut inner = self.inner.lock();
        // A duplicate is never rejected for lack of room.
        if let Some(ticket) = inner.tickets.get(&entry.identity) {
            return Joined::At(ticket.clone());
        }
        if inner.epoch != looked.0 {
            return Joined::LookAgain(Box::new(entry));
        }
        if inner.closed {
            return Joined::Closed;
        }
        let admitted = match lane {
            Lane::Fresh => inner.admit_fresh(&entry, now, self.most),
            Lane::Old => inner.admit_old(&entry, now, self.most, self.most_old),
        };
        if let Err(wait) = admitted {
            return Joined::Full {
                retry_after_seconds: whole_seconds(wait),
            };
        }
        let first = inner.is_empty();
        let identity = entry.identity;
        let ticket = match lane {
            Lane::Fresh => inner.fresh.push(entry, now),
            Lane::Old => inner.old.push(entry, now),
        };
        inner.tickets.insert(identity, ticket.clone());
        drop(inner);
        if first {
            self.arrived.notify_one();
        }
        Joined::At(ticket)
    }

    /// Returns when an entry waits for a round, or the pool closes.
    pub(crate) async fn arrival(&self) {
        loop {
            let arrived = self.arrived.notified();
            {
                let inner = self.inner.lock();
                if inner.closed || !inner.is_empty() {
                    return;
                }
            }
            arrived.await;
        }
    }

    /// Removes the next round from the pool; its identities stay known. After the pool is closed,
    /// the round has all waiting entries.
    pub(crate) fn seal(&self) -> SealedRound {
        self.seal_at(Instant::now())
    }

    fn seal_at(&self, now: Instant) -> SealedRound {
        let mut inner = self.inner.lock();
        let room = if inner.closed {
            usize::MAX
        } else {
            inner.cost.room()
        };
        let fresh = inner.fresh.take(usize::MAX);
        let old = inner.old.take(room);
        let round = SealedRound::of(fresh, old);
        if !round.entries.is_empty() {
            let identities = round.entries.iter().map(|entry| entry.identity);
            inner.sealed.push_back(identities.collect());
            inner.under_way = Some(now);
        }
        round
    }

    /// Reports to all waiting submissions that their entries will not be in a round of this
    /// process.
    pub(crate) fn turn_away(&self) {
        let mut inner = self.inner.lock();
        let fresh = inner.fresh.take(usize::MAX);
        let old = inner.old.take(usize::MAX);
        let round = SealedRound::of(fresh, old);
        for entry in &round.entries {
            inner.tickets.remove(&entry.identity);
        }
        drop(inner);
        round.outcome.decide(Err(Abandoned));
    }

    /// Removes the oldest round from memory, because the index has it now.
    pub(crate) fn forget_oldest(&self) {
        let mut inner = self.inner.lock();
        inner.epoch += 1;
        let round = inner.sealed.pop_front().unwrap_or_default();
        let forgotten: Vec<_> = round.iter().map(|it| inner.tickets.remove(it)).collect();
        drop(inner);
        // Frees the tickets outside the lock, because a round may have thousands.
        drop(forgotten);
    }

    /// Records the duration of a round, for the next round's time and for Retry-After. The next
    /// round starts after `period` at the earliest.
    pub(crate) fn note_round(&self, entries: usize, took: Duration, period: Duration) {
        let mut inner = self.inner.lock();
        inner.cost.note(entries, took, took.max(period));
        inner.under_way = None;
    }

    /// Stops accepting entries.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.arrived.notify_one();
        self.closing.notify_waiters();
    }

    /// Stops accepting entries for this reason.
    pub(crate) fn fail(&self, fatal: Fatal) {
        self.inner.lock().failure.get_or_insert(fatal);
        self.close();
    }

    /// Takes the reason why the pool was closed; `None` after a regular close.
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

    /// Returns whether the pool accepts no more entries.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }

    /// Closes the pool, and reports a failed round to all waiting submissions.
    pub(crate) fn abandon(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        let waiting: Vec<Ticket> = inner.tickets.values().cloned().collect();
        drop(inner);
        RoundOutcome(waiting).decide(Err(Abandoned));
    }

    /// Returns the number of waiting entries.
    pub(crate) fn depth(&self) -> usize {
        let inner = self.inner.lock();
        inner.fresh.held().entries + inner.old.held().entries
    }

    /// Returns the load, for instances that forward entries to this instance.
    pub(crate) fn pressure(&self) -> Pressure {
        let depth = self.depth();
        Pressure {
            depth: u32::try_from(depth).unwrap_or(u32::MAX),
            drain_rate: self.inner.lock().cost.rate() as u32,
        }
    }

    /// Returns the number of waiting entries in this lane.
    pub(crate) fn waiting(&self, lane: Lane) -> usize {
        let inner = self.inner.lock();
        match lane {
            Lane::Fresh => inner.fresh.held().entries,
            Lane::Old => inner.old.held().entries,
        }
    }
}

impl Inner {
    fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.old.is_empty()
    }

    /// Admits a fresh entry, or returns the time until there is room: the next round takes all
    /// fresh entries.
    fn admit_fresh(&self, entry: &Entry, now: Instant, most: Amount) -> Result<(), Duration> {
        if self.fresh.has_room(entry, most.beside(self.old.held())) {
            Ok(())
        } else {
            Err(self.round(now))
        }
    }

    /// Admits an old entry. Otherwise returns the time until the waiting old entries have left, or
    /// until the rate allows another entry. The estimate assumes rounds of the current capacity.
    fn admit_old(
        &mut self,
        entry: &Entry,
        now: Instant,
        most: Amount,
        share: Amount,
    ) -> Result<(), Duration> {
        let most = share.least(most.beside(self.fresh.held()));
        let before = self.old.held().entries / self.cost.room();
        let rounds = u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1);
        let wait = self.round(now).saturating_mul(rounds);
        let is_too_long = before > 0 && wait > MAX_OLD_WAIT;
        if is_too_long || !self.old.has_room(entry, most) {
            return Err(wait);
        }
        match &mut self.old_rate {
            Some(rate) => rate.take(now),
            None => Ok(()),
        }
    }

    /// Returns the estimated time until the next round: the usual time, or the time since the start
    /// of the current round if that time is longer.
    fn round(&self, now: Instant) -> Duration {
        let so_far = self
            .under_way
            .map_or(Duration::ZERO, |since| now.duration_since(since));
        self.cost.distance().max(so_far)
    }
}

/// Returns the time in whole seconds, rounded up, for a Retry-After.
pub(crate) fn whole_seconds(wait: Duration) -> u32 {
    let seconds = wait.min(MAX_RETRY_AFTER).as_secs_f64().ceil();
    seconds.max(1.0) as u32
}

#[cfg(test)]
mod tests;
