//! SCTs whose entries are still to be proven included. One goes away once it is
//! proven, so memory depends on the merge delay and not on the run's length.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Instant;

use lucarne_tlog::{Hash, TILE_WIDTH};

use super::extra_data::ExtraData;
use super::sct::VerifiedSct;

/// More than this is not kept: ten minutes at 1,000/s, some 100 MB.
const MOST: usize = 600_000;

/// The number of proven ones that are remembered, to notice an index promised again.
const REMEMBERED: usize = 4096;

/// One SCT to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingSct {
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
    /// The extra data that the entry must have, where that is known.
    pub extra_data: Option<ExtraData>,
}

/// The promises of one log.
#[derive(Debug, Default)]
pub struct PendingScts {
    /// By index; more than one at an index only if the log has promised it twice.
    open: BTreeMap<(u64, Hash), PendingSct>,
    /// The time at which each becomes overdue, in the order in which they were issued.
    due: VecDeque<(Instant, (u64, Hash))>,
    /// Those that are not at their index. Where else they are, if anywhere, is known
    /// once they are due: until then the entry may still come.
    deferred: Vec<PendingSct>,
    /// The extra data of those that are proven, until its data tile is read.
    unread: BTreeMap<u64, ExtraData>,
    /// The last indexes that were proven, and in which order.
    known: BTreeMap<u64, Hash>,
    order: VecDeque<u64>,
    /// The counts of the whole run.
    pub counts: SctCounts,
}

/// Counts over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SctCounts {
    /// SCTs of new entries.
    pub issued: u64,
    /// In the log, at their place.
    pub included: u64,
    /// In the log at another place, or not there.
    pub misplaced: u64,
    /// Not covered in time.
    pub late: u64,
    /// Not remembered, because there were too many at once.
    pub untracked: u64,
}

impl PendingScts {
    /// A new entry was promised.
    ///
    /// # Errors
    /// Its index has been promised to another one: in words. Both are followed, as
    /// whichever came first says nothing about which of them is kept.
    pub fn add(
        &mut self,
        verified: &VerifiedSct,
        extra_data: Option<ExtraData>,
        due: Instant,
    ) -> Result<(), String> {
        self.counts.issued += 1;
        let key = (verified.index, verified.leaf);
        let same = self.open.contains_key(&key);
        if same || self.known.get(&verified.index) == Some(&verified.leaf) {
            // One submission, answered again because its first answer got lost.
            self.counts.included += 1;
            return Ok(());
        }
        let taken = self.is_taken(verified.index);
        if self.open() >= MOST {
            self.counts.untracked += 1;
        } else {
            let sct = PendingSct {
                index: verified.index,
                leaf: verified.leaf,
                timestamp: verified.timestamp,
                due,
                late: false,
                extra_data,
            };
            self.open.insert(key, sct);
            self.due.push_back((due, key));
        }
        match taken {
            false => Ok(()),
            true => Err(format!(
                "index {} was promised to two submissions",
                verified.index
            )),
        }
    }

    fn is_taken(&self, index: u64) -> bool {
        let (first, last) = (Hash([0; Hash::LENGTH]), Hash([0xff; Hash::LENGTH]));
        let mut there = self.open.range((index, first)..=(index, last));
        there.next().is_some() || self.known.contains_key(&index)
    }

    /// Takes out the promises that a tree of this size covers.
    pub fn covered(&mut self, size: u64) -> Vec<PendingSct> {
        let beyond = self.open.split_off(&(size, Hash([0; Hash::LENGTH])));
        let covered = std::mem::replace(&mut self.open, beyond);
        covered.into_values().collect()
    }

    /// The promises that were due at `now` and that no checkpoint asked for since
    /// covers, each once. They stay open.
    pub fn overdue(&mut self, now: Instant) -> Vec<PendingSct> {
        let mut late = Vec::new();
        while let Some((_, key)) = self.due.pop_front_if(|(due, _)| *due <= now) {
            if let Some(sct) = self.open.get_mut(&key).filter(|sct| sct.due <= now) {
                sct.late = true;
                late.push(sct.clone());
            }
        }
        self.counts.late += late.len() as u64;
        late
    }

    /// A promise was looked up.
    pub fn resolve(&mut self, sct: &PendingSct, kept: bool) {
        self.counts.included += u64::from(kept);
        self.counts.misplaced += u64::from(!kept);
        if let (true, Some(extra_data)) = (kept, &sct.extra_data)
            && self.unread.len() < MOST
        {
            self.unread.insert(sct.index, extra_data.clone());
        }
        if kept && self.known.insert(sct.index, sct.leaf).is_none() {
            self.order.push_back(sct.index);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Puts back what could not be looked up.
    pub fn put_back(&mut self, pending_scts: impl IntoIterator<Item = PendingSct>) {
        let back = pending_scts.into_iter();
        let back = back.map(|sct| ((sct.index, sct.leaf), sct));
        self.open.extend(back);
    }

    /// Keeps a promise that is not at its index until it is due.
    pub fn defer(&mut self, sct: PendingSct) {
        self.deferred.push(sct);
    }

    /// Takes out those that were set aside and were due at `now`.
    pub fn take_deferred(&mut self, now: Instant) -> Vec<PendingSct> {
        self.deferred.extract_if(.., |sct| sct.due <= now).collect()
    }

    /// Takes out what was submitted for the entries of this range.
    pub fn take_unread(&mut self, range: Range<u64>) -> BTreeMap<u64, ExtraData> {
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
        for sct in self.open.values_mut().chain(&mut self.deferred) {
            sct.due = sct.due.max(due);
        }
    }

    /// The number of those that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len() + self.deferred.len()
    }

    /// The open one with the largest index.
    #[must_use]
    pub fn last(&self) -> Option<&PendingSct> {
        self.open.values().next_back()
    }

    /// The open ones, for the audit's last word.
    pub fn iter(&self) -> impl Iterator<Item = &PendingSct> {
        self.open.values().chain(&self.deferred)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lucarne_tlog::leaf_hash;

    use super::*;

    fn verified(index: u64) -> VerifiedSct {
        VerifiedSct {
            index,
            timestamp: index,
            leaf: leaf_hash(&index.to_be_bytes()),
        }
    }

    #[test]
    fn covered_overdue_and_twice() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pending_scts = PendingScts::default();
        for index in [3, 1, 2, 9] {
            pending_scts.add(&verified(index), None, at(index)).unwrap();
        }
        let other = VerifiedSct {
            leaf: leaf_hash(b"other"),
            ..verified(9)
        };
        assert!(pending_scts.add(&other, None, at(9)).is_err());
        let indexes = |pending_scts: Vec<PendingSct>| {
            pending_scts.iter().map(|sct| sct.index).collect::<Vec<_>>()
        };
        assert_eq!(indexes(pending_scts.covered(2)), [1]);
        assert_eq!(indexes(pending_scts.overdue(at(2))), [] as [u64; 0]); // behind 3, which is not due
        assert_eq!(indexes(pending_scts.overdue(at(3))), [3, 2]);
        assert_eq!(indexes(pending_scts.overdue(at(3))), [] as [u64; 0]);
        pending_scts.extend(at(20));
        assert_eq!(indexes(pending_scts.overdue(at(19))), [] as [u64; 0]);
        // Whoever came first, both are followed.
        assert_eq!(indexes(pending_scts.overdue(at(20))), [9, 9]);
        assert_eq!((pending_scts.open(), pending_scts.counts.late), (4, 4));
        assert_eq!(indexes(pending_scts.covered(10)), [2, 3, 9, 9]);
    }

    #[test]
    fn an_index_stays_taken() {
        let now = Instant::now();
        let mut pending_scts = PendingScts::default();
        for index in 0..REMEMBERED as u64 + 5 {
            pending_scts.add(&verified(index), None, now).unwrap();
            for sct in pending_scts.covered(u64::MAX) {
                pending_scts.resolve(&sct, true);
            }
        }
        assert_eq!(pending_scts.known.len(), REMEMBERED);
        let other = VerifiedSct {
            leaf: leaf_hash(b"other"),
            ..verified(7)
        };
        assert!(pending_scts.add(&other, None, now).is_err());
        pending_scts.add(&verified(7), None, now).unwrap();
        assert_eq!((pending_scts.open(), pending_scts.counts.misplaced), (1, 0));
        assert_eq!(pending_scts.counts.issued, pending_scts.counts.included + 1);
    }
}
