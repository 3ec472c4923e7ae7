//! Signatures of the newest SCTs. A client that submits a chain again gets the first SCT without a
//! new signature, if the first SCT is still in memory.

use lucarne_ct::Identity;
use parking_lot::Mutex;

use crate::index::dedup::LeafPosition;

/// Number of SCTs in memory: 8 MB, or two minutes at 500 submissions per second.
const KEPT: usize = 1 << 16;

/// SCTs in a page of 33 kB. A log that issues few SCTs, among many logs of a process, uses only one
/// page.
const PAGE: usize = 256;

/// A `DigitallySigned` of a P-256 key: two algorithms, a length, and a signature of up to 72 bytes.
const LONGEST: usize = 4 + 72;

#[derive(Clone, Copy)]
struct Slot {
    identity: Identity,
    place: LeafPosition,
    /// Length of the signature; 0 in an empty slot.
    length: u8,
    signature: [u8; LONGEST],
}

const EMPTY: Slot = Slot {
    identity: Identity([0; 32]),
    place: LeafPosition {
        index: 0,
        timestamp_ms: 0,
    },
    length: 0,
    signature: [0; LONGEST],
};

/// Signatures by the index of their entry. A newer signature replaces an older signature in the
/// same slot. A page is allocated for its first signature.
#[derive(Default)]
pub(crate) struct IssuedScts(Mutex<Vec<Vec<Slot>>>);

/// Returns the page and the slot for the SCT of this entry.
fn slot_of(place: LeafPosition) -> (usize, usize) {
    let slot = (place.index % KEPT as u64) as usize;
    (slot / PAGE, slot % PAGE)
}

impl IssuedScts {
    /// Returns the signature of the SCT of this entry with this position; `None` if the signature
    /// is not in memory. The inclusion of the entry was proven before the signature.
    pub(crate) fn find(&self, identity: &Identity, place: LeafPosition) -> Option<Vec<u8>> {
        let (page, slot) = slot_of(place);
        let pages = self.0.lock();
        let slot = pages.get(page)?.get(slot)?;
        let same = slot.length > 0 && (slot.identity, slot.place) == (*identity, place);
        same.then(|| slot.signature[..usize::from(slot.length)].to_vec())
    }

    /// Stores a signature.
    pub(crate) fn remember(&self, identity: &Identity, place: LeafPosition, signature: &[u8]) {
        let mut issued = Slot {
            identity: *identity,
            place,
            length: signature.len() as u8,
            ..EMPTY
        };
        let Some(space) = issued.signature.get_mut(..signature.len()) else {
            return;
        };
        space.copy_from_slice(signature);
        let (page, slot) = slot_of(place);
        let mut pages = self.0.lock();
        if pages.is_empty() {
            pages.resize(KEPT / PAGE, Vec::new());
        }
        if pages[page].is_empty() {
            pages[page] = vec![EMPTY; PAGE];
        }
        pages[page][slot] = issued;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Identity = Identity([1; 32]);
    const OTHER: Identity = Identity([2; 32]);

    fn at(index: u64, timestamp_ms: u64) -> LeafPosition {
        LeafPosition {
            index,
            timestamp_ms,
        }
    }

    #[test]
    fn found_by_entry_and_place_until_a_newer_one_comes() {
        let issued = IssuedScts::default();
        assert_eq!(issued.find(&ONE, at(0, 0)), None);
        issued.remember(&ONE, at(7, 100), b"signature");
        assert_eq!(issued.find(&ONE, at(7, 100)).unwrap(), b"signature");
        assert_eq!(issued.find(&OTHER, at(7, 100)), None);
        assert_eq!(issued.find(&ONE, at(7, 101)), None);
        assert_eq!(issued.find(&ONE, at(7 + KEPT as u64, 100)), None);
        assert_eq!(issued.find(&ONE, at(0, 0)), None);
        issued.remember(&OTHER, at(7 + KEPT as u64, 200), b"newer");
        assert_eq!(issued.find(&ONE, at(7, 100)), None);
        assert_eq!(
            issued.find(&OTHER, at(7 + KEPT as u64, 200)).unwrap(),
            b"newer"
        );
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let issued = IssuedScts::default();
        issued.remember(&ONE, at(1, 1), &[1; LONGEST + 1]);
        assert_eq!(issued.find(&ONE, at(1, 1)), None);
        issued.remember(&ONE, at(1, 1), &[1; LONGEST]);
        assert_eq!(issued.find(&ONE, at(1, 1)).unwrap(), [1; LONGEST]);
    }
}
