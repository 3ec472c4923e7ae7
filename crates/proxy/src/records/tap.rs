//! Counting of the bytes of a body, and a copy of its start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Limit of the copy of one body, in bytes.
pub(crate) const BODY: usize = 1 << 20;

/// Limit of all copies in memory, in bytes.
const BODIES: usize = 64 << 20;

/// Bytes that passed in one direction.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    bytes: AtomicU64,
    copy: Option<Mutex<Copy>>,
}

/// The start of a body.
#[derive(Debug)]
struct Copy {
    bytes: Vec<u8>,
    /// Whether all bytes so far are in the copy.
    whole: bool,
    /// Bytes of all copies in memory.
    captured: Arc<AtomicUsize>,
}

impl Tap {
    /// Creates a tap that copies the first [`BODY`] bytes. `captured` counts the bytes of all
    /// copies.
    pub(crate) fn copying(captured: &Arc<AtomicUsize>) -> Self {
        let copy = Copy {
            bytes: Vec::new(),
            whole: true,
            captured: captured.clone(),
        };
        Tap {
            bytes: AtomicU64::new(0),
            copy: Some(Mutex::new(copy)),
        }
    }

    /// Counts bytes.
    pub(crate) fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts these bytes, and copies them within the limits.
    pub(crate) fn pass(&self, bytes: &[u8]) {
        self.count(bytes.len());
        if let Some(copy) = &self.copy {
            copy.lock().append(bytes);
        }
    }

    /// Returns the number of bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns a copy of the body, and whether it is complete. Returns `None` for a tap that only
    /// counts.
    pub(crate) fn copied(&self) -> Option<(Vec<u8>, bool)> {
        let copy = self.copy.as_ref()?.lock();
        Some((copy.bytes.clone(), copy.whole))
    }
}

impl Copy {
    fn append(&mut self, bytes: &[u8]) {
        let room = if self.whole {
            BODY - self.bytes.len()
        } else {
            0
        };
        let part = &bytes[..bytes.len().min(room)];
        let before = self.captured.fetch_add(part.len(), Ordering::Relaxed);
        if before + part.len() > BODIES {
            self.captured.fetch_sub(part.len(), Ordering::Relaxed);
            self.whole = false;
            return;
        }
        self.bytes.extend_from_slice(part);
        self.whole &= part.len() == bytes.len();
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.captured.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_bounded_each_and_together() {
        let captured = Arc::<AtomicUsize>::default();
        let long = vec![7; BODY + 1];
        let mut taps: Vec<Tap> = Vec::new();
        for _ in 0..BODIES / BODY {
            let tap = Tap::copying(&captured);
            tap.pass(&long[..BODY / 2]);
            tap.pass(&long[BODY / 2..]);
            tap.pass(b"more");
            let (copy, whole) = tap.copied().unwrap();
            assert_eq!(
                (copy.len(), whole, tap.bytes()),
                (BODY, false, BODY as u64 + 5)
            );
            taps.push(tap);
        }
        let beyond = Tap::copying(&captured);
        beyond.pass(b"beyond");
        assert_eq!(beyond.copied().unwrap(), (Vec::new(), false));
        drop(taps);
        assert_eq!(captured.load(Ordering::Relaxed), 0);
        let small = Tap::copying(&captured);
        small.pass(b"small");
        assert_eq!(small.copied().unwrap(), (b"small".to_vec(), true));
    }
}
