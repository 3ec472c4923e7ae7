//! Time of users in iterations, and the parts of it that a target takes without a result.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::exchange::Exchange;
use crate::metric::Metric;

/// Shortest wait that counts as lost when the end of the run cuts it off.
const LEAST_LOST: Duration = Duration::from_secs(1);

/// Time of users in iterations.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct UserTime {
    /// All time in iterations that were not idle, with their pauses.
    pub(crate) total: Duration,
    /// Waits for responses that never arrived.
    pub(crate) lost: Duration,
    /// Waits that the target requested.
    pub(crate) throttled: Duration,
}

impl UserTime {
    pub(crate) fn merge(&mut self, other: &UserTime) {
        self.total = self.total.saturating_add(other.total);
        self.lost = self.lost.saturating_add(other.lost);
        self.throttled = self.throttled.saturating_add(other.throttled);
    }

    /// Returns a part of the time as a rate in milliseconds. A scenario without iterations has lost
    /// nothing.
    pub(crate) fn share(&self, part: Duration) -> Metric {
        let total = (self.total.as_millis() as u64).max(1);
        let good = (part.as_millis() as u64).min(total);
        Metric::Rate { good, total }
    }
}

/// Reasons why a user does not wait for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The plan requires the pause.
    Plan,
    /// The target requested the wait.
    Throttled,
}

/// Clock of one user, which divides the time of an iteration.
#[derive(Debug)]
pub(crate) struct UserClock {
    begun: Instant,
    /// Time since which the user waits for a response: the start of the iteration, or the end of
    /// the last request or pause.
    since: Instant,
    pause: Option<(Pause, Instant)>,
    lost: Duration,
    throttled: Duration,
    /// Longest time to a response, over all iterations of the user.
    longest_response: Duration,
    /// Number of pausing users of the scenario.
    pausing: Arc<AtomicU64>,
}

impl UserClock {
    pub(crate) fn new(pausing: Arc<AtomicU64>) -> Self {
        let now = Instant::now();
        UserClock {
            begun: now,
            since: now,
            pause: None,
            lost: Duration::ZERO,
            throttled: Duration::ZERO,
            longest_response: Duration::ZERO,
            pausing,
        }
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        self.resume(now);
        (self.begun, self.since) = (now, now);
        (self.lost, self.throttled) = (Duration::ZERO, Duration::ZERO);
    }

    /// Begins a pause. Only [`resume`](Self::resume) ends it, so that the clock still knows the
    /// pause after its future was dropped.
    pub(crate) fn pause(&mut self, why: Pause, now: Instant) {
        self.resume(now);
        self.pause = Some((why, now));
        self.pausing.fetch_add(1, Relaxed);
    }

    /// Ends a pause, if there is one.
    pub(crate) fn resume(&mut self, now: Instant) {
        let Some((why, paused)) = self.pause.take() else {
            return;
        };
        self.pausing.fetch_sub(1, Relaxed);
        if why == Pause::Throttled {
            self.throttled += now.saturating_duration_since(paused);
        }
        self.since = self.since.max(now);
    }

    /// Returns the reason of the current pause.
    pub(crate) fn pausing(&self) -> Option<Pause> {
        self.pause.map(|(why, _)| why)
    }

    /// Records a request. Concurrent requests without a response count once.
    pub(crate) fn request(&mut self, exchange: &Exchange) {
        let Exchange {
            started, finished, ..
        } = *exchange;
        if exchange.is_answered() {
            let took = finished.saturating_duration_since(started);
            self.longest_response = self.longest_response.max(took);
        } else {
            self.lost += finished.saturating_duration_since(self.since.max(started));
        }
        self.since = self.since.max(finished);
    }

    /// Ends an iteration that the end of the run cut off. A wait for a response is lost if the
    /// scenario never waited as long for a response that arrived: a shorter wait may be ordinary.
    pub(crate) fn cut_off(&mut self, now: Instant, longest_response: Duration) {
        if self.pause.is_some() {
            return self.resume(now);
        }
        let waited = now.saturating_duration_since(self.since);
        let ordinary = longest_response.max(self.longest_response).max(LEAST_LOST);
        if waited > ordinary {
            self.lost += waited;
        }
    }

    pub(crate) fn longest_response(&self) -> Duration {
        self.longest_response
    }

    /// Returns the time of the iteration that ends now.
    pub(crate) fn time(&self, now: Instant) -> UserTime {
        UserTime {
            total: now.saturating_duration_since(self.begun),
            lost: self.lost,
            throttled: self.throttled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Failure;
    use crate::http::kind;

    const SECOND: Duration = Duration::from_secs(1);

    struct Timed {
        clock: UserClock,
        begin: Instant,
    }

    impl Timed {
        fn new() -> Self {
            let begin = Instant::now();
            let mut clock = UserClock::new(Arc::default());
            clock.begin(begin);
            Timed { clock, begin }
        }

        fn request(&mut self, from: u32, to: u32, outcome: Result<(), Failure>) {
            let status = if outcome.is_ok() { 200 } else { 0 };
            self.clock.request(&Exchange {
                started: self.begin + SECOND * from,
                finished: self.begin + SECOND * to,
                status,
                ..Exchange::without_response(self.begin, "none", outcome)
            });
        }

        /// Returns all, lost and throttled seconds of an iteration that ends at this second.
        fn seconds(&self, end: u32) -> (u64, u64, u64) {
            let time = self.clock.time(self.begin + SECOND * end);
            let UserTime {
                total,
                lost,
                throttled,
            } = time;
            (total.as_secs(), lost.as_secs(), throttled.as_secs())
        }
    }

    fn timeout() -> Result<(), Failure> {
        Err(Failure::new(kind::TIMEOUT, ""))
    }

    #[test]
    fn requests_without_a_response_are_lost_and_pauses_are_not() {
        let mut timed = Timed::new();
        timed.request(0, 2, Ok(()));
        timed.clock.pause(Pause::Plan, timed.begin + SECOND * 2);
        timed.clock.resume(timed.begin + SECOND * 10);
        timed.request(10, 13, timeout());
        // Two concurrent requests.
        timed.request(13, 17, timeout());
        timed.request(13, 18, timeout());
        assert_eq!(timed.seconds(20), (20, 8, 0));
        timed
            .clock
            .pause(Pause::Throttled, timed.begin + SECOND * 20);
        assert_eq!(timed.clock.pausing.load(Relaxed), 1);
        // The end of the run cuts the wait off.
        timed
            .clock
            .cut_off(timed.begin + SECOND * 27, Duration::ZERO);
        assert_eq!(timed.seconds(27), (27, 8, 7));
        assert_eq!(timed.clock.pausing.load(Relaxed), 0);
    }

    #[test]
    fn a_cut_off_wait_is_lost_if_it_is_longer_than_every_response() {
        for (slowest, expected) in [(0, 4), (3, 4), (4, 0)] {
            let mut timed = Timed::new();
            timed.request(0, 10, Ok(()));
            timed.clock.longest_response = Duration::ZERO;
            timed
                .clock
                .cut_off(timed.begin + SECOND * 14, SECOND * slowest);
            assert_eq!(timed.seconds(14), (14, expected, 0), "{slowest}");
        }
        // The user's own slow responses count as well.
        let mut timed = Timed::new();
        timed.request(0, 5, Ok(()));
        timed
            .clock
            .cut_off(timed.begin + SECOND * 9, Duration::ZERO);
        assert_eq!(timed.seconds(9), (9, 0, 0));
    }

    #[test]
    fn a_short_wait_at_the_end_is_not_lost() {
        let mut timed = Timed::new();
        timed.clock.cut_off(timed.begin + SECOND, Duration::ZERO);
        assert_eq!(timed.seconds(1), (1, 0, 0));
    }

    #[test]
    fn a_share_has_samples_even_without_time() {
        let Metric::Rate { good, total } = UserTime::default().share(Duration::ZERO) else {
            panic!("not a rate");
        };
        assert_eq!((good, total), (0, 1));
    }
}
