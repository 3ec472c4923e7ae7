use std::time::Duration;

use super::Clock;

/// The bounds of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The memory that certificates may take, in bytes (of
    /// [`Minted::weight`](super::Minted::weight)): 64 MiB, some 7,000 of them.
    /// Beyond it those asked for least go.
    pub max_bytes: u64,
    /// The number of certificates that are made at a time: one per processor.
    pub generations: usize,
    /// The number of keys that may be waited for at a time: 4,096.
    pub waiting: usize,
    /// The time before its notAfter from which a certificate is no longer given out: an
    /// hour, but at most a tenth of its life.
    pub margin: Duration,
    /// The time before that at which its successor is made in the background: a day,
    /// but at most a quarter of its life.
    pub ahead: Duration,
    /// The source of the time.
    pub clock: Clock,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            max_bytes: 64 << 20,
            generations: std::thread::available_parallelism().map_or(2, usize::from),
            waiting: 4096,
            margin: Duration::from_secs(3600),
            ahead: Duration::from_secs(86_400),
            clock: Clock::default(),
        }
    }
}
