//! What a log has promised and not yet kept. A promise goes away once it is
//! proven, so memory depends on the merge delay and not on the run's length.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use lucarne_ct::Fingerprint;
use lucarne_tlog::{Hash, TILE_WIDTH};

use super::sct::Promised;

/// More than this is not kept: ten minutes at 1,000/s, some 100 MB.
const MOST: usize = 600_000;

/// How many proven ones are remembered, to notice an index promised again.
const REMEMBERED: usize = 4096;

/// What was submitted, as far as the tree's hash does not cover it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// SHA-256 of the precertificate; `None` for a final certificate.
    pub precertificate: Option<Fingerprint>,
    /// The chain above it.
    pub issuers: Arc<Issuers>,
}

/// The chain above what was submitted, as a log must name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuers {
    /// The issuer first.
    pub chain: Vec<Fingerprint>,
    /// Whether the last one is the accepted root. If not, one more follows.
    pub complete: bool,
}

impl Issuers {
    /// Compares the fingerprints of an entry with this chain.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn compare(&self, found: &[Fingerprint]) -> Result<(), String> {
        let expected = self.chain.len() + usize::from(!self.complete);
        if found.len() == expected && found.starts_with(&self.chain) {
            return Ok(());
        }
        let sorted = |chain: &[Fingerprint]| chain.iter().copied().collect::<BTreeSet<_>>();
        Err(match found.len().cmp(&expected) {
            std::cmp::Ordering::Less => format!(
                "the chain ends after {} of {expected} certificates, short of the accepted root",
                found.len()
            ),
            _ if sorted(found) == sorted(&self.chain) => {
                "the chain is not in the order of the submission".to_owned()
            }
            _ => "the chain is not the one that was submitted".to_owned(),
        })
    }
}

/// One SCT to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// What the entry must have besides, where that is known.
    pub submitted: Option<Submitted>,
}

/// The promises of one log.
#[derive(Debug, Default)]
pub struct Promises {
    /// By index; more than one at an index only if the log has promised it twice.
    open: BTreeMap<(u64, Hash), Promise>,
    /// When each becomes overdue, in the order in which they were made.
    due: VecDeque<(Instant, (u64, Hash))>,
    /// Those that are not at their index. Where else they are, if anywhere, is known
    /// once they are due: until then the entry may still come.
    aside: Vec<Promise>,
    /// What was submitted, of promises that are kept, until its data tile is read.
    unread: BTreeMap<u64, Submitted>,
    /// The last indexes that were proven, and in which order.
    known: BTreeMap<u64, Hash>,
    order: VecDeque<u64>,
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
    /// Its index has been promised to another one: in words. Both are followed, as
    /// whichever came first says nothing about which of them is kept.
    pub fn made(
        &mut self,
        promised: &Promised,
        submitted: Option<Submitted>,
        due: Instant,
    ) -> Result<(), String> {
        self.tally.made += 1;
        let key = (promised.index, promised.leaf);
        let same = self.open.contains_key(&key);
        if same || self.known.get(&promised.index) == Some(&promised.leaf) {
            // One submission, answered again because its first answer got lost.
            self.tally.proven += 1;
            return Ok(());
        }
        let taken = self.is_taken(promised.index);
        if self.open() >= MOST {
            self.tally.forgotten += 1;
        } else {
            let promise = Promise {
                index: promised.index,
                leaf: promised.leaf,
                timestamp: promised.timestamp,
                due,
                late: false,
                submitted,
            };
            self.open.insert(key, promise);
            self.due.push_back((due, key));
        }
        match taken {
            false => Ok(()),
            true => Err(format!(
                "index {} was promised to two submissions",
                promised.index
            )),
        }
    }

    fn is_taken(&self, index: u64) -> bool {
        let (first, last) = (Hash([0; Hash::LENGTH]), Hash([0xff; Hash::LENGTH]));
        let mut there = self.open.range((index, first)..=(index, last));
        there.next().is_some() || self.known.contains_key(&index)
    }

    /// Takes out the promises that a tree of this size covers.
    pub fn covered(&mut self, size: u64) -> Vec<Promise> {
        let beyond = self.open.split_off(&(size, Hash([0; Hash::LENGTH])));
        let covered = std::mem::replace(&mut self.open, beyond);
        covered.into_values().collect()
    }

    /// The promises that were due at `now` and that no checkpoint asked for since
    /// covers, each once. They stay open.
    pub fn overdue(&mut self, now: Instant) -> Vec<Promise> {
        let mut late = Vec::new();
        while let Some((_, key)) = self.due.pop_front_if(|(due, _)| *due <= now) {
            if let Some(promise) = self.open.get_mut(&key).filter(|promise| promise.due <= now) {
                promise.late = true;
                late.push(promise.clone());
            }
        }
        self.tally.late += late.len() as u64;
        late
    }

    /// A promise was looked up.
    pub fn settled(&mut self, promise: &Promise, kept: bool) {
        self.tally.proven += u64::from(kept);
        self.tally.broken += u64::from(!kept);
        if let (true, Some(submitted)) = (kept, &promise.submitted)
            && self.unread.len() < MOST
        {
            self.unread.insert(promise.index, submitted.clone());
        }
        if kept && self.known.insert(promise.index, promise.leaf).is_none() {
            self.order.push_back(promise.index);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Puts back what could not be looked up.
    pub fn put_back(&mut self, promises: impl IntoIterator<Item = Promise>) {
        let back = promises.into_iter();
        let back = back.map(|promise| ((promise.index, promise.leaf), promise));
        self.open.extend(back);
    }

    /// Keeps a promise that is not at its index until it is due.
    pub fn set_aside(&mut self, promise: Promise) {
        self.aside.push(promise);
    }

    /// Takes out those that were set aside and were due at `now`.
    pub fn take_aside(&mut self, now: Instant) -> Vec<Promise> {
        self.aside
            .extract_if(.., |promise| promise.due <= now)
            .collect()
    }

    /// Takes out what was submitted for the entries of this range.
    pub fn take_unread(&mut self, range: Range<u64>) -> BTreeMap<u64, Submitted> {
        let mut from = self.unread.split_off(&range.start);
        let mut beyond = from.split_off(&range.end);
        self.unread.append(&mut beyond);
        from
    }

    /// The data tiles below `tile` whose entries are still to be compared: their
    /// answers came after the tile was read.
    #[must_use]
    pub fn unread_tiles(&self, tile: u64) -> BTreeSet<u64> {
        let below = self.unread.range(..tile * TILE_WIDTH);
        below.map(|(index, _)| index / TILE_WIDTH).collect()
    }

    /// The log was away: whatever is open is due no earlier than this.
    pub fn extend(&mut self, due: Instant) {
        for (at, _) in &mut self.due {
            *at = (*at).max(due);
        }
        for promise in self.open.values_mut().chain(&mut self.aside) {
            promise.due = promise.due.max(due);
        }
    }

    /// How many are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len() + self.aside.len()
    }

    /// The open one with the largest index.
    #[must_use]
    pub fn last(&self) -> Option<&Promise> {
        self.open.values().next_back()
    }

    /// The open ones, for the audit's last word.
    pub fn iter(&self) -> impl Iterator<Item = &Promise> {
        self.open.values().chain(&self.aside)
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
            promises.made(&promised(index), None, at(index)).unwrap();
        }
        let other = Promised {
            leaf: leaf_hash(b"other"),
            ..promised(9)
        };
        assert!(promises.made(&other, None, at(9)).is_err());
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
        // Whoever came first, both are followed.
        assert_eq!(indexes(promises.overdue(at(20))), [9, 9]);
        assert_eq!((promises.open(), promises.tally.late), (4, 4));
        assert_eq!(indexes(promises.covered(10)), [2, 3, 9, 9]);
    }

    #[test]
    fn an_index_stays_taken() {
        let now = Instant::now();
        let mut promises = Promises::default();
        for index in 0..REMEMBERED as u64 + 5 {
            promises.made(&promised(index), None, now).unwrap();
            for promise in promises.covered(u64::MAX) {
                promises.settled(&promise, true);
            }
        }
        assert_eq!(promises.known.len(), REMEMBERED);
        let other = Promised {
            leaf: leaf_hash(b"other"),
            ..promised(7)
        };
        assert!(promises.made(&other, None, now).is_err());
        promises.made(&promised(7), None, now).unwrap();
        assert_eq!((promises.open(), promises.tally.broken), (1, 0));
        assert_eq!(promises.tally.made, promises.tally.proven + 1);
    }

    #[test]
    fn a_chain_is_compared_whole() {
        let print = |number| Fingerprint([number; 32]);
        let issuers = |complete| Issuers {
            chain: vec![print(1), print(2), print(3)],
            complete,
        };
        let compare = |found: &[u8], complete| {
            let found: Vec<_> = found.iter().copied().map(print).collect();
            issuers(complete).compare(&found)
        };
        assert_eq!(compare(&[1, 2, 3], true), Ok(()));
        assert_eq!(compare(&[1, 2, 3, 9], false), Ok(()));
        for (found, complete, words) in [
            (&[1, 2][..], true, "short of the accepted root"),
            (&[1, 2, 3], false, "short of the accepted root"),
            (&[2, 1, 3], true, "not in the order"),
            (&[1, 2, 4], true, "not the one that was submitted"),
            (&[1, 2, 3, 4], true, "not the one that was submitted"),
            (&[], true, "after 0 of 3"),
        ] {
            let problem = compare(found, complete).unwrap_err();
            assert!(problem.contains(words), "{found:?}: {problem}");
        }
    }
}
