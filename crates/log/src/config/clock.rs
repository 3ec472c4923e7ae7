//! The clock of the log.

use std::fmt;
use std::sync::Arc;

use lucarne_x509::now_ms;

/// A source of Unix time in milliseconds. Tests use a clock that jumps.
#[derive(Clone)]
pub struct Clock {
    now_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    confirmed: bool,
}

impl Clock {
    /// Returns the clock of the operating system.
    pub fn system() -> Self {
        Clock::new(now_ms)
    }

    /// Returns a clock that reads the time from `now_ms`.
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Clock {
            now_ms: Arc::new(now_ms),
            confirmed: false,
        }
    }

    /// Returns the same clock, marked as confirmed: an operator has stated that the time was right
    /// at the start of the process. The log then starts however old its last signature is.
    pub fn confirmed(self) -> Self {
        Clock {
            confirmed: true,
            ..self
        }
    }

    /// Returns whether an operator has confirmed the clock.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Returns the Unix time in milliseconds.
    pub fn now_ms(&self) -> u64 {
        (self.now_ms)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}
