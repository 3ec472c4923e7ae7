//! The absences of a log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The absences of one log, as seen by everybody who sends requests to it.
#[derive(Debug, Default)]
pub struct Outage {
    expected: bool,
    down: AtomicBool,
    since: Mutex<Option<Instant>>,
    over: Mutex<Vec<Duration>>,
    errors: AtomicU64,
}

impl Outage {
    /// Of a log that may be restarted (`--expect-restarts`), or may not.
    #[must_use]
    pub fn new(expected: bool) -> Self {
        Self {
            expected,
            ..Self::default()
        }
    }

    /// Returns whether the log may be away at all.
    #[must_use]
    pub fn expected(&self) -> bool {
        self.expected
    }

    /// A request that began at `started` got no answer.
    pub(crate) fn request_failed(&self, started: Instant) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut since = self.since.lock();
        since.get_or_insert(started);
        self.down.store(true, Ordering::Relaxed);
    }

    /// A request got an answer; how long the log had been away, if it had.
    pub(crate) fn answered(&self) -> Option<Duration> {
        if !self.down.load(Ordering::Relaxed) {
            return None;
        }
        let mut since = self.since.lock();
        self.down.store(false, Ordering::Relaxed);
        let away = since.take()?.elapsed();
        self.over.lock().push(away);
        Some(away)
    }

    /// Returns whether it is away now.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// The absences that are over, in order.
    #[must_use]
    pub fn over(&self) -> Vec<Duration> {
        self.over.lock().clone()
    }

    /// The number of requests without answer.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_first_error_to_the_next_answer() {
        let outage = Outage::new(true);
        assert_eq!(outage.answered(), None);
        let long_ago = Instant::now() - Duration::from_secs(5);
        outage.request_failed(long_ago);
        outage.request_failed(Instant::now());
        assert!(outage.is_down());
        assert!(outage.answered().unwrap() >= Duration::from_secs(5));
        assert_eq!(outage.answered(), None);
        assert_eq!((outage.over().len(), outage.errors()), (1, 2));
    }
}
