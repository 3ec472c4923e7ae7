//! The files there are, how large, and which was asked for last.

use std::collections::{BTreeMap, HashMap};

/// The names of at most so many bytes.
pub(super) struct Lru {
    most: u64,
    bytes: u64,
    tick: u64,
    entries: HashMap<String, Entry>,
    /// From the one that nobody asked for for the longest time.
    order: BTreeMap<u64, String>,
}

#[derive(Clone, Copy)]
struct Entry {
    size: u64,
    tick: u64,
}

impl Lru {
    pub(super) fn new(most: u64) -> Self {
        Self {
            most,
            bytes: 0,
            tick: 0,
            entries: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether it would fit at all.
    pub(super) fn takes(&self, size: u64) -> bool {
        size <= self.most
    }

    /// Returns whether it is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Returns whether it is there; if so, it is the newest now.
    pub(super) fn touch(&mut self, name: &str) -> bool {
        self.tick += 1;
        let Some(entry) = self.entries.get_mut(name) else {
            return false;
        };
        self.order.remove(&entry.tick);
        entry.tick = self.tick;
        self.order.insert(self.tick, name.to_owned());
        true
    }

    /// Adds one; those that have to make room for it.
    pub(super) fn insert(&mut self, name: &str, size: u64) -> Vec<String> {
        self.remove(name);
        self.tick += 1;
        let tick = self.tick;
        self.entries.insert(name.to_owned(), Entry { size, tick });
        self.order.insert(tick, name.to_owned());
        self.bytes += size;
        let mut gone = Vec::new();
        while self.bytes > self.most {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            if let Some(entry) = self.entries.remove(&oldest) {
                self.bytes -= entry.size;
            }
            gone.push(oldest);
        }
        gone
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(entry) = self.entries.remove(name) {
            self.order.remove(&entry.tick);
            self.bytes -= entry.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_nobody_asks_for_makes_room() {
        let mut lru = Lru::new(10);
        assert!(lru.insert("a", 4).is_empty());
        assert!(lru.insert("b", 4).is_empty());
        assert!(lru.touch("a"));
        assert_eq!(lru.insert("c", 4), ["b"]);
        assert!(lru.touch("a") && !lru.touch("b"));
        assert_eq!(lru.bytes(), 8);
        // The same one again is counted once.
        assert!(lru.insert("c", 6).is_empty());
        assert_eq!(lru.bytes(), 10);
        lru.remove("c");
        assert_eq!(lru.bytes(), 4);
        assert!(!lru.takes(11));
    }
}
