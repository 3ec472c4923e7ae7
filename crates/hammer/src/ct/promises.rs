//! What a log has promised and not yet kept. A promise goes away once it is
//! proven, so memory depends on the merge delay and not on the run's length.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use lucarne_tlog::Hash;

use super::sct::Promised;

/// More than this is not kept: ten minutes at 1,000/s, some 100 MB.
const MOST: usize = 600_000;

/// One SCT to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The entry's place.
    pub index: u64,
    /// The hash that the tree must have there.
    pub leaf: Hash,
    /// Milliseconds since 1970.
    pub timestamp: u64,
    /// Until when a checkpoint must cover it.
    pub due: Instant,
    /// None did.
    pub late: bool,
}

/// The promises of one log.
#[derive(Debug, Default)]
pub struct Promises {
    open: BTreeMap<u64, Promise>,
    /// When each becomes overdue, in the order in which they were made.
    due: VecDeque<(Instant, u64)>,
    /// What became of them.
    pub tally: Tally,
}

/// Counts over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// SCTs of new entries.
    pub made: u64,
    /// In the log, at their place.
    pub proven: u64,
    /// In the log at another place, or not there.
    pub broken: u64,
    /// Not covered in time.
    pub late: u64,
    /// Not remembered, because there were too many at once.
    pub forgotten: u64,
}

impl Promises {
    /// A new entry was promised.
    ///
    /// # Errors
    /// Its index has been promised to another one: in words.
    pub fn made(&mut self, promised: &Promised, due: Instant) -> Result<(), String> {
        self.tally.made += 1;
        if let Some(other) = self.open.get(&promised.index) {
            self.tally.broken += 1;
            return Err(format!(
                "index {} was promised to two submissions, at {} and at {}",
                promised.index, other.timestamp, promised.timestamp
            ));
        }
        if self.open.len() >= MOST {
            self.tally.forgotten += 1;
            return Ok(());
        }
        let promise = Promise {
            index: promised.index,
            leaf: promised.leaf,
            timestamp: promised.timestamp,
            due,
            late: false,
        };
        self.open.insert(promised.index, promise);
        self.due.push_back((due, promised.index));
        Ok(())
    }

    /// Takes out the promises that a tree of this size covers.
    pub fn covered(&mut self, size: u64) -> Vec<Promise> {
        let beyond = self.open.split_off(&size);
        let covered = std::mem::replace(&mut self.open, beyond);
        covered.into_values().collect()
    }

    /// The promises that were due at `now` and that no checkpoint asked for since
    /// covers, each once. They stay open.
    pub fn overdue(&mut self, now: Instant) -> Vec<Promise> {
        let mut late = Vec::new();
        while let Some((_, index)) = self.due.pop_front_if(|(due, _)| *due <= now) {
            if let Some(promise) = self
                .open
                .get_mut(&index)
                .filter(|promise| promise.due <= now)
            {
                promise.late = true;
                late.push(*promise);
            }
        }
        self.tally.late += late.len() as u64;
        late
    }

    /// Puts back what could not be looked up.
    pub fn put_back(&mut self, promises: impl IntoIterator<Item = Promise>) {
        let back = promises.into_iter().map(|promise| (promise.index, promise));
        self.open.extend(back);
    }

    /// The log was away: whatever is open is due no earlier than this.
    pub fn extend(&mut self, due: Instant) {
        for (at, _) in &mut self.due {
            *at = (*at).max(due);
        }
        for promise in self.open.values_mut() {
            promise.due = promise.due.max(due);
        }
    }

    /// How many are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// The open one with the largest index.
    #[must_use]
    pub fn last(&self) -> Option<&Promise> {
        self.open.values().next_back()
    }

    /// The open ones, for the audit's last word.
    pub fn iter(&self) -> impl Iterator<Item = &Promise> {
        self.open.values()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lucarne_tlog::leaf_hash;

    use super::*;

    fn promised(index: u64) -> Promised {
        Promised {
            index,
            timestamp: index,
            leaf: leaf_hash(&index.to_be_bytes()),
        }
    }

    #[test]
    fn covered_overdue_and_twice() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut promises = Promises::default();
        for index in [3, 1, 2, 9] {
            promises.made(&promised(index), at(index)).unwrap();
        }
        assert!(promises.made(&promised(9), at(9)).is_err());
        let indexes = |promises: Vec<Promise>| {
            promises
                .iter()
                .map(|promise| promise.index)
                .collect::<Vec<_>>()
        };
        assert_eq!(indexes(promises.covered(2)), [1]);
        assert_eq!(indexes(promises.overdue(at(2))), [] as [u64; 0]); // behind 3, which is not due
        assert_eq!(indexes(promises.overdue(at(3))), [3, 2]);
        assert_eq!(indexes(promises.overdue(at(3))), [] as [u64; 0]);
        promises.extend(at(20));
        assert_eq!(indexes(promises.overdue(at(19))), [] as [u64; 0]);
        assert_eq!(indexes(promises.overdue(at(20))), [9]);
        assert_eq!((promises.open(), promises.tally.late), (3, 3));
        assert_eq!(indexes(promises.covered(10)), [2, 3, 9]);
    }
}
