use std::time::Duration;

use super::Clock;

/// Limits of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Limit of the memory for certificates in bytes, by [`Minted::weight`](super::Minted::weight):
    /// 64 MiB by default, for about 7,000 certificates. Beyond the limit, the least requested
    /// certificates are dropped.
    pub max_bytes: u64,
    /// Limit of certificates that are created concurrently: one per processor by default.
    pub generations: usize,
    /// Limit of keys that callers wait for at the same time: 4,096 by default.
    pub waiting: usize,
    /// Time between the last use of a certificate and its notAfter: an hour by default, but at most
    /// a tenth of its lifetime.
    pub margin: Duration,
    /// Time between the creation of the successor in the background and the last use of a
    /// certificate: a day by default, but at most a quarter of its lifetime.
    pub ahead: Duration,
    /// Clock of the store.
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
