//! Signatures of the newest SCTs: who submits a chain again gets the answer of the first time, as
//! far as it is still here, and costs no signature.

use parking_lot::Mutex;

/// SCTs that are kept: they take 6 MB, and are two minutes' worth at 500 a second.
const KEPT: u64 = 1 << 16;

/// A DigitallySigned by a P-256 key: two algorithms, a length, and a signature of up to 72 bytes.
const LONGEST: usize = 4 + 72;

#[derive(Clone, Copy)]
struct Slot {
    index: u64,
    timestamp_ms: u64,
    /// 0 if there is nothing yet.
    length: u8,
    signature: [u8; LONGEST],
}

const EMPTY: Slot = Slot {
    index: 0,
    timestamp_ms: 0,
    length: 0,
    signature: [0; LONGEST],
};

/// Signatures by the index that they were made for, a newer one in place of an older one. Takes no
/// memory until the first.
#[derive(Default)]
pub(crate) struct Issued(Mutex<Vec<Slot>>);

impl Issued {
    /// The signature of the SCT for the entry at this index. Index and timestamp of what is in the
    /// log never change, and with them what was signed.
    pub(crate) fn find(&self, index: u64, timestamp_ms: u64) -> Option<Vec<u8>> {
        let slots = self.0.lock();
        let slot = slots.get((index % KEPT) as usize)?;
        let same = slot.length > 0 && (slot.index, slot.timestamp_ms) == (index, timestamp_ms);
        same.then(|| slot.signature[..usize::from(slot.length)].to_vec())
    }

    /// Keeps a signature.
    pub(crate) fn remember(&self, index: u64, timestamp_ms: u64, signature: &[u8]) {
        let mut slot = Slot {
            index,
            timestamp_ms,
            length: signature.len() as u8,
            ..EMPTY
        };
        let Some(space) = slot.signature.get_mut(..signature.len()) else {
            return;
        };
        space.copy_from_slice(signature);
        let mut slots = self.0.lock();
        if slots.is_empty() {
            slots.resize(KEPT as usize, EMPTY);
        }
        slots[(index % KEPT) as usize] = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn found_by_index_and_timestamp_until_a_newer_one_comes() {
        let issued = Issued::default();
        assert_eq!(issued.find(0, 0), None);
        issued.remember(7, 100, b"signature");
        assert_eq!(issued.find(7, 100).unwrap(), b"signature");
        assert_eq!(issued.find(7, 101), None);
        assert_eq!(issued.find(7 + KEPT, 100), None);
        assert_eq!(issued.find(0, 0), None);
        issued.remember(7 + KEPT, 200, b"newer");
        assert_eq!(issued.find(7, 100), None);
        assert_eq!(issued.find(7 + KEPT, 200).unwrap(), b"newer");
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let issued = Issued::default();
        issued.remember(1, 1, &[1; LONGEST + 1]);
        assert_eq!(issued.find(1, 1), None);
        issued.remember(1, 1, &[1; LONGEST]);
        assert_eq!(issued.find(1, 1).unwrap(), [1; LONGEST]);
    }
}
