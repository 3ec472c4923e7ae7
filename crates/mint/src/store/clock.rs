use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// The clock that a store reads the time from: the system's, or one of a test's own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// A clock that shows what `read` returns.
    pub fn new(read: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Clock(Arc::new(read))
    }

    /// The time.
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
