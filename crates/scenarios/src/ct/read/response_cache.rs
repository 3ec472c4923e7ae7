//! Cache of one log's files, which all users share.

use std::collections::{HashSet, VecDeque};

use parking_lot::Mutex;

/// Number of remembered paths; contents are not stored.
const REMEMBERED: usize = 65_536;

/// Immutable files that have been read, and the entity tag of the checkpoint.
#[derive(Debug, Default)]
pub(super) struct ResponseCache {
    read: Mutex<(HashSet<u64>, VecDeque<u64>)>,
    checkpoint: Mutex<Option<String>>,
}

impl ResponseCache {
    /// Returns whether this file has been read before.
    pub(super) fn has(&self, path: &str) -> bool {
        self.read.lock().0.contains(&key(path))
    }

    /// Records that this immutable file has been read.
    pub(super) fn keep(&self, path: &str) {
        let mut read = self.read.lock();
        let (known, order) = &mut *read;
        if known.insert(key(path)) {
            order.push_back(key(path));
        }
        if order.len() > REMEMBERED
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
    }

    /// Returns the entity tag of the last checkpoint.
    pub(super) fn checkpoint(&self) -> Option<String> {
        self.checkpoint.lock().clone()
    }

    /// Stores the entity tag of a checkpoint.
    pub(super) fn checkpoint_is(&self, tag: Option<&str>) {
        *self.checkpoint.lock() = tag.map(str::to_owned);
    }
}

fn key(path: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_so_many() {
        let cache = ResponseCache::default();
        for number in 0..REMEMBERED + 10 {
            cache.keep(&number.to_string());
            cache.keep(&number.to_string());
        }
        assert!(!cache.has("9"));
        assert!(cache.has("10"));
        assert_eq!(cache.read.lock().0.len(), REMEMBERED);
    }
}
