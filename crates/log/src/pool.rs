//! The pool, where entries wait for their round, and where the newest ones are known.
//!
//! An identity lives in exactly one of three places at a time, and moves
//! forward only: the entries that wait, the rounds in memory, the dedup index. A
//! round leaves memory only after the index has it. A submission looks in
//! memory, then (without any lock held) in the index, and then joins those that
//! wait under the lock. Between the second look and the third, a round may
//! have moved from memory to the index behind its back: `epoch` counts such
//! moves, and [`Pool::join`] sends the submission back to look again if the
//! count has changed. So no entry is sequenced twice.
//!
//! There are two [lanes](Lane). A round takes all fresh entries that wait, and then old ones, first
//! come, first served, for as many as it has time ([`RoundCost`]); the others wait for the next. What
//! bounds them is their share of the pool, their rate, and the time that they would wait. Nothing
//! else holds them back: as long as any wait, each round has some.

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
use crate::Fatal;
use crate::forward::wire::Pressure;
use crate::lane::{Lane, LaneConfig};

/// Bytes of the pool for each entry that it may have: four times those of a usual one with its
/// chain, so that it is filled by entries, unless they are unusual.
const BYTES_PER_ENTRY: usize = 16 << 10;
/// Longest time for which an old entry is let in to wait: its client may not wait longer.
const OLD_PATIENCE: Duration = Duration::from_secs(10);

struct Inner {
    fresh: Queue,
    old: Queue,
    old_rate: Option<RateLimit>,
    /// The entries that wait, and those of the rounds in memory.
    tickets: HashMap<Identity, Ticket>,
    /// The rounds in memory, oldest first: in flight, or published and not yet in the index.
    sealed: VecDeque<Vec<Identity>>,
    /// The time when the round under way was sealed.
    under_way: Option<Instant>,
    cost: RoundCost,
    epoch: u64,
    closed: bool,
    failure: Option<Fatal>,
}

/// The answer of memory about an identity.
pub(crate) enum Known {
    /// It waits, or is in a round that is not yet in the index.
    Here(Ticket),
    /// Look in the index, then come back with this.
    NotHere(Epoch),
}

/// The time when memory was looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// The outcome of joining those that wait.
pub(crate) enum Joined {
    /// Wait with this ticket.
    At(Ticket),
    /// A round has moved to the index since memory was looked at: look again.
    LookAgain(Box<Entry>),
    /// No room in its lane.
    Full { retry_after_seconds: u32 },
    /// The log takes nothing more.
    Closed,
}

/// A round taken out of the pool to be sequenced: fresh entries, then old ones.
pub(crate) struct SealedRound {
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) outcome: RoundOutcome,
    /// The number of those that are fresh.
    pub(crate) fresh: usize,
    /// The time since when each has waited.
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

    /// The lane of each entry, and the time for which it has waited until `now`.
    pub(crate) fn waits(&self, now: Instant) -> impl Iterator<Item = (Lane, Duration)> {
        let lanes = (0..).map(|n| match n < self.fresh {
            true => Lane::Fresh,
            false => Lane::Old,
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
    /// A pool of at most so many entries.
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

    /// Looks for an identity in memory.
    pub(crate) fn find(&self, identity: &Identity) -> Known {
        let inner = self.inner.lock();
        match inner.tickets.get(identity) {
            Some(ticket) => Known::Here(ticket.clone()),
            None => Known::NotHere(Epoch(inner.epoch)),
        }
    }

    /// Joins those that wait in this lane. `looked` is when memory was looked at before the
    /// index was: see the module's text.
    pub(crate) fn join(&self, entry: Entry, lane: Lane, looked: Epoch) -> Joined {
        self.join_at(entry, lane, looked, Instant::now())
    }

    fn join_at(&self, entry: Entry, lane: Lane, looked: Epoch, now: Instant) -> Joined {
        let mut inner = self.inner.lock();
        // A duplicate is never refused for want of room.
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

    /// Waits until an entry waits, or the pool closes.
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

    /// Takes the next round out; its identities stay known. Once the pool is closed, that is all that
    /// waits.
    pub(crate) fn seal(&self) -> SealedRound {
        self.seal_at(Instant::now())
    }

    fn seal_at(&self, now: Instant) -> SealedRound {
        let mut inner = self.inner.lock();
        let room = match inner.closed {
            true => usize::MAX,
            false => inner.cost.room(),
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

    /// Tells everybody who waits for a round that there is none: their
    /// entries are nowhere.
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

    /// The oldest round in memory is in the index now: forgets it here.
    pub(crate) fn forget_oldest(&self) {
        let mut inner = self.inner.lock();
        inner.epoch += 1;
        let round = inner.sealed.pop_front().unwrap_or_default();
        let forgotten: Vec<_> = round.iter().map(|it| inner.tickets.remove(it)).collect();
        drop(inner);
        // Freed outside the lock: it may hold thousands of tickets.
        drop(forgotten);
    }

    /// Notes how long a round took, at least `period` before the next: for the time that the next has,
    /// and for Retry-After.
    pub(crate) fn note_round(&self, entries: usize, took: Duration, period: Duration) {
        let mut inner = self.inner.lock();
        inner.cost.note(entries, took, took.max(period));
        inner.under_way = None;
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
        let waiting: Vec<Ticket> = inner.tickets.values().cloned().collect();
        drop(inner);
        RoundOutcome(waiting).decide(Err(Abandoned));
    }

    /// Entries that wait for a round.
    pub(crate) fn depth(&self) -> usize {
        let inner = self.inner.lock();
        inner.fresh.held().entries + inner.old.held().entries
    }

    /// The load, for instances that forward entries to this one.
    pub(crate) fn pressure(&self) -> Pressure {
        let depth = self.depth();
        Pressure {
            depth: u32::try_from(depth).unwrap_or(u32::MAX),
            drain_rate: self.inner.lock().cost.rate() as u32,
        }
    }

    /// Entries that wait in this lane.
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

    /// Lets a fresh entry in, or says when there will be room: the next round takes all.
    fn admit_fresh(&self, entry: &Entry, now: Instant, most: Amount) -> Result<(), Duration> {
        match self.fresh.has_room(entry, most.beside(self.old.held())) {
            true => Ok(()),
            false => Err(self.round(now)),
        }
    }

    /// Lets an old entry in, or says when those that wait will have gone, or when the rate allows it: in
    /// rounds of as many as there is time for now.
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
        let is_too_long = before > 0 && wait > OLD_PATIENCE;
        if is_too_long || !self.old.has_room(entry, most) {
            return Err(wait);
        }
        match &mut self.old_rate {
            Some(rate) => rate.take(now),
            None => Ok(()),
        }
    }

    /// Time until the next round begins, at most: that of a round, unless the one under way takes longer.
    fn round(&self, now: Instant) -> Duration {
        let so_far = self
            .under_way
            .map_or(Duration::ZERO, |since| now.duration_since(since));
        self.cost.distance().max(so_far)
    }
}

/// Whole seconds, rounded up, for a Retry-After.
pub(crate) fn whole_seconds(wait: Duration) -> u32 {
    let seconds = wait.min(MAX_RETRY_AFTER).as_secs_f64().ceil();
    seconds.max(1.0) as u32
}

#[cfg(test)]
mod tests;
