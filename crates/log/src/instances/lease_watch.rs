//! Detection of a silent leader by a follower's own monotonic clock.
//!
//! A lease is alive while the lock or the lease changes. Each follower measures the time without a
//! change itself, so clocks are never compared. A leader that commits rounds needs no other sign of
//! life. Time during which the lock could not be read, or this process did not run, is not counted,
//! because it is no evidence about the leader.

use std::time::Duration;

use lucarne_storage::Lease;
use tokio::time::Instant;

/// The last state of lock and lease, and the time without a change.
pub(crate) struct LeaseWatch {
    lease: Duration,
    /// Maximum time that counts between two polls.
    most: Duration,
    seen: Option<(Vec<u8>, Option<Lease>)>,
    looked: Option<Instant>,
    silent: Duration,
    /// Whether the holder of the lease has changed lock or lease since it was first seen.
    lives: bool,
}

impl LeaseWatch {
    /// Starts to watch. The caller reads lock and lease every `poll`.
    pub(crate) fn new(lease: Duration, poll: Duration) -> Self {
        LeaseWatch {
            lease,
            most: 2 * poll,
            seen: None,
            looked: None,
            silent: Duration::ZERO,
            lives: false,
        }
    }

    /// Returns whether the holder of the lease was alive while this process watched.
    pub(crate) fn holder_lives(&self) -> bool {
        self.lives
    }

    /// Records lock and lease at the time of a poll. Returns `true` if the lease has lapsed.
    pub(crate) fn note(&mut self, checkpoint: &[u8], lease: Option<&Lease>, at: Instant) -> bool {
        let same = self
            .seen
            .as_ref()
            .is_some_and(|(seen, held)| seen == checkpoint && held.as_ref() == lease);
        match self.looked.replace(at) {
            Some(before) if same => {
                let passed = at.saturating_duration_since(before);
                self.silent += passed.min(self.most);
            }
            _ => {
                self.silent = Duration::ZERO;
                let holder = |lease: Option<&Lease>| lease.map(|lease| (lease.holder, lease.epoch));
                let seen = self.seen.as_ref();
                self.lives = seen.is_some_and(|(_, seen)| holder(seen.as_ref()) == holder(lease));
                self.seen = Some((checkpoint.to_vec(), lease.cloned()));
            }
        }
        self.silent >= self.lease
    }

    /// Records a failure to read the lock.
    pub(crate) fn note_failure(&mut self) {
        self.looked = None;
        self.silent = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Duration = Duration::from_millis(250);
    const LEASE: Duration = Duration::from_millis(1500);

    fn lease(renewal: u64) -> Lease {
        Lease {
            holder: Some([1; 16]),
            address: "a:1".into(),
            epoch: 1,
            renewal,
        }
    }

    /// Returns the number of polls without a change after which the lease lapses.
    fn lapses(watch: &mut LeaseWatch, from: Instant, every: Duration) -> Option<u32> {
        (0..100).find(|n| watch.note(b"same", Some(&lease(0)), from + every * *n))
    }

    #[test]
    fn a_silent_leader_is_replaced_and_one_that_lives_is_not() {
        let start = Instant::now();
        let mut watch = LeaseWatch::new(LEASE, POLL);
        assert_eq!(lapses(&mut watch, start, POLL), Some(6));
        // The lock or the lease changes.
        let at = start + POLL * 7;
        assert!(!watch.note(b"other", Some(&lease(0)), at));
        assert!(!watch.note(b"other", Some(&lease(1)), at + POLL));
        for n in 0..100 {
            let at = at + POLL * (2 + n);
            assert!(!watch.note(n.to_string().as_bytes(), Some(&lease(1)), at));
        }
    }

    #[test]
    fn a_gap_tells_little_and_a_failure_nothing() {
        let start = Instant::now();
        let mut watch = LeaseWatch::new(LEASE, POLL);
        // This process was stopped for a minute between any two polls.
        let minute = Duration::from_secs(60);
        assert_eq!(lapses(&mut watch, start, minute), Some(3));
        let mut watch = LeaseWatch::new(LEASE, POLL);
        for n in 0..100 {
            assert!(!watch.note(b"same", None, start + POLL * n));
            if n % 5 == 4 {
                watch.note_failure();
            }
        }
    }
}
