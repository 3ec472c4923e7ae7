//! The waiting entries of one lane, and the shares of issuing CAs.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use lucarne_ct::{Entry, Fingerprint};
use tokio::time::Instant;

use super::ticket::Ticket;

/// An entry that waits for a round.
pub(super) struct Waiting {
    pub(super) entry: Arc<Entry>,
    pub(super) ticket: Ticket,
    pub(super) since: Instant,
}

/// A number of entries, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

impl Amount {
    fn of(entry: &Entry) -> Amount {
        Amount {
            entries: 1,
            bytes: entry.size(),
        }
    }

    fn add(&mut self, other: Amount) {
        self.entries += other.entries;
        self.bytes += other.bytes;
    }

    fn remove(&mut self, other: Amount) {
        self.entries -= other.entries;
        self.bytes -= other.bytes;
    }

    /// Subtracts `other` from this amount.
    pub(super) fn beside(self, other: Amount) -> Amount {
        Amount {
            entries: self.entries.saturating_sub(other.entries),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Returns the smaller number of entries, and the smaller number of bytes.
    pub(super) fn least(self, other: Amount) -> Amount {
        Amount {
            entries: self.entries.min(other.entries),
            bytes: self.bytes.min(other.bytes),
        }
    }
}

/// Entries in order of arrival.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    held: Amount,
    by_issuer: HashMap<Fingerprint, Amount>,
}

impl Queue {
    /// Returns the number of waiting entries, and of their bytes.
    pub(super) fn held(&self) -> Amount {
        self.held
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether the entry may join a lane with room for `most`. The entry's own size does
    /// not count: one entry may exceed the limit of bytes.
    pub(super) fn has_room(&self, entry: &Entry, most: Amount) -> bool {
        let own = self.by_issuer.get(&issuing_ca(entry)).copied();
        let issuers = self.by_issuer.len() + usize::from(own.is_none());
        let (all, own) = (self.held, own.unwrap_or_default());
        has_share(all.entries, own.entries, issuers, most.entries)
            && has_share(all.bytes, own.bytes, issuers, most.bytes)
    }

    pub(super) fn push(&mut self, entry: Entry, now: Instant) -> Ticket {
        let amount = Amount::of(&entry);
        self.held.add(amount);
        self.by_issuer
            .entry(issuing_ca(&entry))
            .or_default()
            .add(amount);
        let ticket = Ticket::default();
        self.waiting.push_back(Waiting {
            entry: Arc::new(entry),
            ticket: ticket.clone(),
            since: now,
        });
        ticket
    }

    /// Removes the `most` oldest entries.
    pub(super) fn take(&mut self, most: usize) -> Vec<Waiting> {
        if most >= self.waiting.len() {
            return std::mem::take(self).waiting.into();
        }
        let taken: Vec<Waiting> = self.waiting.drain(..most).collect();
        for one in &taken {
            self.release(&one.entry);
        }
        taken
    }

    fn release(&mut self, entry: &Entry) {
        let amount = Amount::of(entry);
        self.held.remove(amount);
        let issuer = issuing_ca(entry);
        if let Some(own) = self.by_issuer.get_mut(&issuer) {
            own.remove(amount);
            if own.entries == 0 {
                self.by_issuer.remove(&issuer);
            }
        }
    }

    /// Returns the identities of the waiting entries.
    #[cfg(test)]
    pub(super) fn identities(&self) -> impl Iterator<Item = lucarne_ct::Identity> {
        self.waiting.iter().map(|one| one.entry.identity)
    }
}

/// Returns whether an issuing CA with `own` entries or bytes may add to a lane that has `all`. The
/// first half of a lane is open to all CAs. In the second half, a CA may have at most an equal
/// share, and an eighth of the lane is reserved for CAs that have no entries. A backfill therefore
/// fills a lane only as far as other CAs leave room.
fn has_share(all: usize, own: usize, issuers: usize, capacity: usize) -> bool {
    if all < capacity / 2 {
        return true;
    }
    match own {
        0 => all < capacity,
        own => all < capacity - capacity / 8 && own < capacity / issuers.max(1),
    }
}

/// Returns the CA whose share the entry counts against: the issuer, or the entry itself if it is an
/// accepted root.
fn issuing_ca(entry: &Entry) -> Fingerprint {
    entry
        .issuers
        .first()
        .map_or(Fingerprint(entry.identity.0), |issuer| issuer.fingerprint)
}
