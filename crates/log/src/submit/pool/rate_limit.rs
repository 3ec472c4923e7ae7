//! The rate limit of a lane: a token bucket with Retry-After.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

/// Maximum Retry-After, because longer estimates are useless.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// A limit of entries per second, with bursts of at most one second's entries.
///
/// A rejected client gets the time at which a token is available for it. Previously rejected
/// clients get earlier tokens. Clients that retry at these times are not rejected again.
#[derive(Debug)]
pub(super) struct RateLimit {
    per_second: f64,
    tokens: f64,
    /// Future tokens that are promised to rejected clients.
    told: f64,
    at: Instant,
}

impl RateLimit {
    pub(super) fn new(per_second: NonZeroU32, now: Instant) -> Self {
        let per_second = f64::from(per_second.get());
        RateLimit {
            per_second,
            tokens: per_second,
            told: 0.0,
            at: now,
        }
    }

    /// Takes a token, or returns the time until a token is available.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let gained = now.duration_since(self.at).as_secs_f64() * self.per_second;
        self.at = now;
        self.tokens = (self.tokens + gained).min(self.per_second);
        self.told = (self.told - gained).max(0.0);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let most = self.per_second * MAX_RETRY_AFTER.as_secs_f64();
        self.told = (self.told + 1.0).min(most);
        let wait = (self.told - self.tokens).max(0.0) / self.per_second;
        Err(Duration::from_secs_f64(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: NonZeroU32 = NonZeroU32::new(10).unwrap();

    #[test]
    fn no_second_has_more_than_the_rate_and_a_burst() {
        let start = Instant::now();
        let mut limit = RateLimit::new(RATE, start);
        let taken = |limit: &mut RateLimit, ms: std::ops::Range<u64>| {
            let times = ms.map(|ms| start + Duration::from_millis(ms));
            times.filter(|now| limit.take(*now).is_ok()).count()
        };
        assert_eq!(taken(&mut limit, 0..1), 1);
        assert_eq!(taken(&mut limit, 1..1000), 18);
        assert_eq!(taken(&mut limit, 1000..6000), 50);
        // Unused tokens of an hour are at most one burst.
        assert_eq!(taken(&mut limit, 3_600_000..3_600_050), 10);
    }

    /// All rejected clients retry at the returned times: no client is rejected again, regardless of
    /// the number of clients.
    #[test]
    fn who_comes_back_when_told_finds_a_token() {
        for crowd in [1_usize, 11, 37, 300, 600] {
            let start = Instant::now();
            let mut limit = RateLimit::new(RATE, start);
            let mut due: Vec<u64> = Vec::new();
            for _ in 0..crowd {
                if let Err(wait) = limit.take(start) {
                    due.push(wait.as_secs_f64().ceil() as u64);
                }
            }
            assert_eq!(due.len(), crowd.saturating_sub(10));
            due.sort_unstable();
            for second in due {
                let now = start + Duration::from_secs(second);
                assert_eq!(limit.take(now), Ok(()), "{second} s, {crowd} in all");
            }
        }
    }
}
