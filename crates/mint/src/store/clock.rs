use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Clock of a store: the system clock by default, or a clock that a test sets.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// Creates a clock whose time is the result of `read`.
    pub fn new(read: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Clock(Arc::new(read))
    }

    /// Returns the current time.
    pub fn now(&self) -> SystemTime {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new(SystemTime::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?})", self.now())
    }
}
