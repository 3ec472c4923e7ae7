//! The clock that the log reads the time from.

use std::fmt;
use std::sync::Arc;

use lucarne_x509::now_ms;

/// A source of Unix time in milliseconds. Tests hand in one that jumps.
#[derive(Clone)]
pub struct Clock {
    now_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    confirmed: bool,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Clock::new(now_ms)
    }

    /// Any other source.
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Clock {
            now_ms: Arc::new(now_ms),
            confirmed: false,
        }
    }

    /// The same, and an operator has said that it was right when the process
    /// was started: the log goes on however long ago it signed last.
    pub fn confirmed(self) -> Self {
        Clock {
            confirmed: true,
            ..self
        }
    }

    /// Returns whether an operator has said so.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Unix time in milliseconds.
    pub fn now_ms(&self) -> u64 {
        (self.now_ms)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}
