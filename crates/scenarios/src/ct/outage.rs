//! Times at which a log does not respond.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The times at which one log does not respond, as all its clients report them.
#[derive(Debug, Default)]
pub struct Outage {
    expected: bool,
    down: AtomicBool,
    since: Mutex<Option<Instant>>,
    over: Mutex<Vec<Duration>>,
    errors: AtomicU64,
}

impl Outage {
    /// Creates the state of a log. `expected` states whether the log may be restarted
    /// (`--expect-restarts`).
    #[must_use]
    pub fn new(expected: bool) -> Self {
        Self {
            expected,
            ..Self::default()
        }
    }

    /// Returns whether absences are expected.
    #[must_use]
    pub fn expected(&self) -> bool {
        self.expected
    }

    /// Records a request without a response, which began at `started`.
    pub(crate) fn request_failed(&self, started: Instant) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut since = self.since.lock();
        since.get_or_insert(started);
        self.down.store(true, Ordering::Relaxed);
    }

    /// Records a response. Returns the length of the absence that it ends, if any.
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

    /// Returns whether the log is unavailable now.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// Returns the lengths of past absences, in order.
    #[must_use]
    pub fn over(&self) -> Vec<Duration> {
        self.over.lock().clone()
    }

    /// Returns the number of requests without a response.
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
