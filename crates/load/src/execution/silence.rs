//! Detection of a target that stops responding.

use std::time::Duration;

/// Silence is at least this long, regardless of the durations of requests.
const LEAST: Duration = Duration::from_secs(5);
/// Silence is longer than this multiple of the 99th percentile of request durations.
const P99_FACTOR: u32 = 10;
/// Longest time of one observation. A longer interval means that this machine was suspended or
/// overloaded, which is not a silence of the target.
const LONGEST_INTERVAL: Duration = Duration::from_secs(2);

/// Silence of the target of one scenario: the time since its last response, without the times at
/// which no user waited for a response.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Silence {
    pub(crate) lasted: Duration,
    /// Longest ordinary silence, by the requests before the silence.
    pub(crate) limit: Duration,
}

impl Silence {
    /// Adds an interval: the number of responses in it, and whether users wait at its end. `usual`
    /// returns the 99th percentile of request durations and the longest time to a response.
    pub(crate) fn add(
        &mut self,
        interval: Duration,
        answered: u64,
        waiting: bool,
        usual: impl FnOnce() -> (Duration, Duration),
    ) {
        if answered > 0 {
            *self = Silence::default();
        } else if waiting {
            if self.lasted.is_zero() {
                // Computed now, because timeouts in the silence raise the percentile.
                let (p99, longest) = usual();
                self.limit = LEAST.max(p99.saturating_mul(P99_FACTOR)).max(longest);
            }
            self.lasted += interval.min(LONGEST_INTERVAL);
        }
    }

    pub(crate) fn is_too_long(&self) -> bool {
        self.lasted > self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns after how many seconds the silence is too long, within a minute.
    fn limit(p99: Duration, longest: Duration) -> Option<u32> {
        let mut silence = Silence::default();
        silence.add(SECOND, 7, true, || unreachable!());
        (1..=60).find(|_| {
            silence.add(SECOND, 0, true, || (p99, longest));
            silence.is_too_long()
        })
    }

    #[test]
    fn the_limit_follows_the_durations_of_responses() {
        let (millisecond, zero) = (Duration::from_millis(1), Duration::ZERO);
        assert_eq!(limit(millisecond, millisecond), Some(6));
        assert_eq!(limit(SECOND, SECOND), Some(11));
        // One response in a thousand takes 20 s.
        assert_eq!(limit(millisecond, SECOND * 20), Some(21));
        // A long poll.
        assert_eq!(limit(SECOND * 30, SECOND * 30), None);
        assert_eq!(limit(zero, zero), Some(6), "never a response");
    }

    #[test]
    fn only_time_in_which_a_user_waits_counts() {
        let mut silence = Silence::default();
        let usual = || (Duration::ZERO, Duration::ZERO);
        for _ in 0..4 {
            silence.add(SECOND, 0, true, usual);
        }
        for _ in 0..60 {
            silence.add(SECOND, 0, false, usual);
        }
        // This machine was suspended.
        silence.add(SECOND * 3600, 0, true, usual);
        assert!(silence.is_too_long());
        assert_eq!(silence.lasted, SECOND * 6);
        silence.add(SECOND, 1, true, usual);
        assert!(!silence.is_too_long());
    }
}
