//! The clock of the token buckets.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// A source of nanoseconds that never goes back. Tests use a clock that they control.
#[derive(Clone)]
pub struct MonotonicClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl MonotonicClock {
    /// Uses the system's monotonic clock, starting at 0 now.
    pub fn system() -> Self {
        let start = Instant::now();
        // 2^64 nanoseconds are 584 years.
        MonotonicClock::new(move || start.elapsed().as_nanos() as u64)
    }

    /// Uses `now` as the source of nanoseconds, which must never go back.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        MonotonicClock(Arc::new(now))
    }

    /// Returns the nanoseconds since an arbitrary start.
    pub fn now(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for MonotonicClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MonotonicClock({})", self.now())
    }
}
