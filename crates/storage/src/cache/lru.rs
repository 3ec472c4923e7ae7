//! The cached files with their sizes, in the order of their last use.

use lru::LruCache;

/// A set of names that is bounded by the total size of the files.
pub(super) struct Lru {
    max: u64,
    bytes: u64,
    /// Names with the sizes of their files.
    sizes: LruCache<String, u64>,
}

impl Lru {
    pub(super) fn new(max: u64) -> Self {
        Self {
            max,
            bytes: 0,
            sizes: LruCache::unbounded(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns `true` if a file of this size fits at all.
    pub(super) fn takes(&self, size: u64) -> bool {
        size <= self.max
    }

    /// Returns `true` if the name is in the set.
    pub(super) fn has(&self, name: &str) -> bool {
        self.sizes.contains(name)
    }

    /// Returns `true` if the name is in the set, and marks it as the most recent.
    pub(super) fn touch(&mut self, name: &str) -> bool {
        self.sizes.promote(name)
    }

    /// Adds a name and returns the names that must be removed to make room.
    pub(super) fn insert(&mut self, name: &str, size: u64) -> Vec<String> {
        self.remove(name);
        self.sizes.put(name.to_owned(), size);
        self.bytes += size;
        let mut gone = Vec::new();
        while self.bytes > self.max
            && let Some((oldest, size)) = self.sizes.pop_lru()
        {
            self.bytes -= size;
            gone.push(oldest);
        }
        gone
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(size) = self.sizes.pop(name) {
            self.bytes -= size;
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
        // Inserting the same name again counts it once.
        assert!(lru.insert("c", 6).is_empty());
        assert_eq!(lru.bytes(), 10);
        lru.remove("c");
        assert_eq!(lru.bytes(), 4);
        assert!(!lru.takes(11));
    }
}
