//! The state of clients: one timestamp for each, in a table of fixed size.
//!
//! The table consists of small sets, each with its own lock. Every client belongs to one set, so
//! that two cores compete for a lock only if their clients share a set. There is no allocation
//! after the start and no cleanup: a slot whose time has passed is free.

use std::hash::{BuildHasher, Hash, RandomState};

use parking_lot::Mutex;

/// A table of timestamps, in nanoseconds of the caller's clock.
pub(super) struct ClientTable {
    sets: Box<[Mutex<Set>]>,
    /// Hasher with a random seed, so that a client cannot choose its set.
    hasher: RandomState,
}

/// Number of slots in a set.
const WAYS: usize = 16;

#[derive(Clone, Copy, Default)]
struct Set {
    slots: [Slot; WAYS],
    /// The timestamp that keys without a slot share.
    shared: u64,
}

/// A key and its timestamp. Key 0 is unused.
#[derive(Clone, Copy, Default)]
struct Slot {
    key: u64,
    time: u64,
}

/// The treatment of a key without a free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenFull {
    /// The key uses the timestamp that all keys without a slot share in its set.
    Share,
    /// The key replaces the slot that expires first.
    Replace,
}

/// The location of a key: its set and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    set: usize,
    key: u64,
}

/// The kind of timestamp that was found: the key's own, or the shared one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Own,
    Shared,
}

impl ClientTable {
    /// Creates a table for this number of keys, rounded up to whole sets.
    pub(super) fn new(clients: usize) -> Self {
        let sets = clients.div_ceil(WAYS).max(1);
        ClientTable {
            sets: (0..sets).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Returns the place of a client.
    pub(super) fn place(&self, client: u64) -> Place {
        let hash = self.hasher.hash_one(client);
        let set = (u128::from(hash) * self.sets.len() as u128) >> 64;
        Place {
            set: set as usize,
            key: client,
        }
    }

    /// Returns the place of a repeated action of a client, for example the reads of one partial
    /// tile. All actions of a client are in one set, so a busy client cannot evict the actions of
    /// clients in other sets. The key is a 64-bit hash of client and action.
    pub(super) fn place_of_deed(&self, client: u64, deed: impl Hash) -> Place {
        let key = self.hasher.hash_one((client, deed)).max(1);
        Place {
            key,
            ..self.place(client)
        }
    }

    /// Calls a function with the timestamp of a key. The function may change the timestamp.
    pub(super) fn with<T>(
        &self,
        place: Place,
        now: u64,
        when_full: WhenFull,
        change: impl FnOnce(&mut u64) -> T,
    ) -> (Found, T) {
        let mut set = self.sets[place.set].lock();
        let Set { slots, shared } = &mut *set;
        let found = match slots.iter().position(|slot| slot.key == place.key) {
            Some(found) => found,
            None => {
                // Chooses the first expired slot, otherwise the slot that expires first.
                let next = |slot: &(usize, &Slot)| slot.1.time.max(now);
                let next = slots.iter().enumerate().min_by_key(next);
                let (index, slot) = next.unwrap_or((0, &slots[0]));
                if slot.time > now && when_full == WhenFull::Share {
                    return (Found::Shared, change(shared));
                }
                slots[index] = Slot {
                    key: place.key,
                    time: 0,
                };
                index
            }
        };
        (Found::Own, change(&mut slots[found].time))
    }

    /// Returns the number of timestamps in the future: clients whose bucket is not full.
    pub(super) fn len(&self, now: u64) -> usize {
        let sets = self.sets.iter();
        let active = |set: &Mutex<Set>| {
            let set = set.lock();
            set.slots.iter().filter(|slot| slot.time > now).count()
        };
        sets.map(active).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(table: &ClientTable, place: Place, now: u64, when_full: WhenFull) -> (Found, u64) {
        table.with(place, now, when_full, |time| {
            *time = (*time).max(now) + 10;
            *time
        })
    }

    #[test]
    fn each_has_a_time_of_its_own() {
        let table = ClientTable::new(64);
        let (one, two) = (table.place(1), table.place(2));
        assert_eq!(add(&table, one, 5, WhenFull::Share), (Found::Own, 15));
        assert_eq!(add(&table, two, 5, WhenFull::Share), (Found::Own, 15));
        assert_eq!(add(&table, one, 5, WhenFull::Share), (Found::Own, 25));
        assert_eq!((table.len(5), table.len(15), table.len(25)), (2, 1, 0));
    }

    #[test]
    fn a_hundred_thousand_take_no_more_room_than_there_is() {
        let table = ClientTable::new(4096);
        let mut shared = 0;
        for client in 1..=100_000 {
            let (found, _) = add(&table, table.place(client), 7, WhenFull::Share);
            shared += usize::from(found == Found::Shared);
        }
        assert_eq!(table.sets.len() * WAYS, 4096);
        assert_eq!((table.len(7), shared), (4096, 100_000 - 4096));
        // Keys with a shared timestamp wait for each other.
        let late = (100_001..).map(|client| table.place(client));
        let late = late.take(10).map(|it| add(&table, it, 7, WhenFull::Share));
        assert!(
            late.into_iter()
                .all(|it| it.0 == Found::Shared && it.1 > 17)
        );
        // When all timestamps have passed, the slots are free again.
        let all =
            (1..=1000).map(|client| add(&table, table.place(client), 9_999_999, WhenFull::Share));
        assert!(all.filter(|it| it.0 == Found::Own).count() > 900);
    }

    #[test]
    fn what_one_does_takes_only_its_own_room() {
        let table = ClientTable::new(4096);
        let of = |client: u64, deed: u64| table.place_of_deed(client, deed);
        let other = (2..)
            .find(|other| of(*other, 0).set != of(1, 0).set)
            .unwrap();
        add(&table, of(other, 0), 5, WhenFull::Replace);
        for deed in 0..1000 {
            let (found, time) = add(&table, of(1, deed), 5, WhenFull::Replace);
            assert_eq!((found, time), (Found::Own, 15));
        }
        assert_eq!(table.len(5), WAYS + 1);
        assert_eq!(add(&table, of(other, 0), 5, WhenFull::Replace).1, 25);
    }

    #[test]
    fn what_is_done_most_is_remembered_longest() {
        let table = ClientTable::new(1);
        let often = table.place_of_deed(1, "often");
        for _ in 0..3 {
            add(&table, often, 5, WhenFull::Replace);
        }
        for deed in 0..1000 {
            add(&table, table.place_of_deed(1, deed), 5, WhenFull::Replace);
        }
        assert_eq!(add(&table, often, 5, WhenFull::Replace).1, 45);
    }
}
