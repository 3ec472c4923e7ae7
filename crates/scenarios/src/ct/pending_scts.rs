//! SCTs whose entries are not yet proven to be included. Proven SCTs are removed, so the memory
//! depends on the merge delay and not on the length of the run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Instant;

use lucarne_tlog::{Hash, TILE_WIDTH};

use super::extra_data::ExtraData;
use super::sct::VerifiedSct;

/// Limit of pending SCTs: ten minutes at 1,000/s, about 100 MB.
const MOST: usize = 600_000;

/// Number of proven SCTs that are remembered, to detect an index that is promised again.
const REMEMBERED: usize = 4096;

/// A promised entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingSct {
    /// Promised index.
    pub index: u64,
    /// Hash of the leaf at this index.
    pub leaf: Hash,
    /// Timestamp of the SCT in milliseconds since 1970.
    pub timestamp: u64,
    /// Deadline for a checkpoint that covers the entry.
    pub due: Instant,
    /// Whether no checkpoint covered the entry in time.
    pub late: bool,
    /// Extra data that the entry must have, if known.
    pub extra_data: Option<ExtraData>,
}

/// The promises of one log.
#[derive(Debug, Default)]
pub struct PendingScts {
    /// Open promises by index; several at one index only if the log promised the index twice.
    open: BTreeMap<(u64, Hash), PendingSct>,
    /// Due times in the order of issue.
    due: VecDeque<(Instant, (u64, Hash))>,
    /// Promises that are not at their index. The entry is searched elsewhere only at the due
    /// time, because the entry may still appear.
    deferred: Vec<PendingSct>,
    /// Extra data of proven promises, until their data tile is checked.
    unread: BTreeMap<u64, ExtraData>,
    /// The last proven indexes, and their order.
    known: BTreeMap<u64, Hash>,
    order: VecDeque<u64>,
    /// Counts of the whole run.
    pub counts: SctCounts,
}

/// Counts over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SctCounts {
    /// Number of SCTs for new entries.
    pub issued: u64,
    /// Number of entries that are in the log at their promised index.
    pub included: u64,
    /// Number of entries that are at another index, have another timestamp, or are missing.
    pub misplaced: u64,
    /// Number of entries that no checkpoint covered in time.
    pub late: u64,
    /// Number of SCTs that were not tracked, because too many were pending.
    pub untracked: u64,
}

/// The log promised this index to two submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("index {0} was promised to two submissions")]
pub struct IndexReused(pub u64);

impl PendingScts {
    /// Adds a promise of a new entry.
    ///
    /// # Errors
    /// [`IndexReused`], if the index is promised to another entry. Both promises are tracked,
    /// because the order does not show which one the log fulfils.
    pub fn add(
        &mut self,
        verified: &VerifiedSct,
        extra_data: Option<ExtraData>,
        due: Instant,
    ) -> Result<(), IndexReused> {
        self.counts.issued += 1;
        let key = (verified.index, verified.leaf);
        let same = self.open.contains_key(&key);
        if same || self.known.get(&verified.index) == Some(&verified.leaf) {
            // The same submission again, because its first response was lost.
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
        if taken {
            Err(IndexReused(verified.index))
        } else {
            Ok(())
        }
    }

    fn is_taken(&self, index: u64) -> bool {
        let (first, last) = (Hash([0; Hash::LENGTH]), Hash([0xff; Hash::LENGTH]));
        let mut there = self.open.range((index, first)..=(index, last));
        there.next().is_some() || self.known.contains_key(&index)
    }

    /// Removes and returns the promises that a tree of this size covers.
    pub fn covered(&mut self, size: u64) -> Vec<PendingSct> {
        let beyond = self.open.split_off(&(size, Hash([0; Hash::LENGTH])));
        let covered = std::mem::replace(&mut self.open, beyond);
        covered.into_values().collect()
    }

    /// Returns the promises that were due at `now` and are not covered, each once. The promises
    /// stay open.
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

    /// Records the result for a promise.
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

    /// Restores promises that could not be checked.
    pub fn put_back(&mut self, pending_scts: impl IntoIterator<Item = PendingSct>) {
        let back = pending_scts.into_iter();
        let back = back.map(|sct| ((sct.index, sct.leaf), sct));
        self.open.extend(back);
    }

    /// Keeps a promise whose entry is not at its index, until the promise is due.
    pub fn defer(&mut self, sct: PendingSct) {
        self.deferred.push(sct);
    }

    /// Removes and returns the deferred promises that were due at `now`.
    pub fn take_deferred(&mut self, now: Instant) -> Vec<PendingSct> {
        self.deferred.extract_if(.., |sct| sct.due <= now).collect()
    }

    /// Removes and returns the extra data of the entries in this range.
    pub fn take_unread(&mut self, range: Range<u64>) -> BTreeMap<u64, ExtraData> {
        let mut from = self.unread.split_off(&range.start);
        let mut beyond = from.split_off(&range.end);
        self.unread.append(&mut beyond);
        from
    }

    /// Returns the data tiles below `tile` that still have entries to compare. The SCTs of these
    /// entries arrived after the data tile was read.
    #[must_use]
    pub fn unread_tiles(&self, tile: u64) -> BTreeSet<u64> {
        let below = self.unread.range(..tile * TILE_WIDTH);
        below.map(|(index, _)| index / TILE_WIDTH).collect()
    }

    /// Extends open promises after an absence: none is due before `due`.
    pub fn extend(&mut self, due: Instant) {
        for (at, _) in &mut self.due {
            *at = (*at).max(due);
        }
        for sct in self.open.values_mut().chain(&mut self.deferred) {
            sct.due = sct.due.max(due);
        }
    }

    /// Returns the number of open promises.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len() + self.deferred.len()
    }

    /// Returns the open promise with the largest index.
    #[must_use]
    pub fn last(&self) -> Option<&PendingSct> {
        self.open.values().next_back()
    }

    /// Returns the open promises, for the result of the audit.
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
        assert_eq!(pending_scts.add(&other, None, at(9)), Err(IndexReused(9)));
        let indexes = |pending_scts: Vec<PendingSct>| {
            pending_scts.iter().map(|sct| sct.index).collect::<Vec<_>>()
        };
        assert_eq!(indexes(pending_scts.covered(2)), [1]);
        // Entry 3 is not due, and hides the entries behind it.
        assert_eq!(indexes(pending_scts.overdue(at(2))), [] as [u64; 0]);
        assert_eq!(indexes(pending_scts.overdue(at(3))), [3, 2]);
        assert_eq!(indexes(pending_scts.overdue(at(3))), [] as [u64; 0]);
        pending_scts.extend(at(20));
        assert_eq!(indexes(pending_scts.overdue(at(19))), [] as [u64; 0]);
        // Both SCTs of entry 9 are tracked, in either order.
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
        assert_eq!(pending_scts.add(&other, None, now), Err(IndexReused(7)));
        pending_scts.add(&verified(7), None, now).unwrap();
        assert_eq!((pending_scts.open(), pending_scts.counts.misplaced), (1, 0));
        assert_eq!(pending_scts.counts.issued, pending_scts.counts.included + 1);
    }
}
