//! The arithmetic of a token bucket: the generic cell rate algorithm (GCRA, ITU-T I.371), in whole
//! nanoseconds.
//!
//! The state of a bucket is one number, the time at which the bucket is full again. A full bucket
//! needs no state.

use std::time::Duration;

/// The size of a bucket and its refill rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    burst: u64,
    interval: u64,
}

/// Maximum time until a bucket is full, about 30 years, so that sums never overflow.
const MAX_NS: u64 = 1_000_000_000_000_000_000;
/// Maximum time until a unit is refilled: 1000 seconds.
const MAX_INTERVAL_NS: u64 = MAX_NS / 1_000_000;

impl Rate {
    /// Creates a bucket of `burst` units with one new unit every `interval`. The minimum is one
    /// unit, and one nanosecond. The interval is limited to 1000 seconds, and the burst to the
    /// units of 30 years.
    pub const fn new(burst: u64, interval: Duration) -> Self {
        let interval = match interval.as_nanos() {
            0 => 1,
            long if long > MAX_INTERVAL_NS as u128 => MAX_INTERVAL_NS,
            interval => interval as u64,
        };
        let max = MAX_NS / interval;
        let burst = match burst {
            0 => 1,
            burst if burst > max => max,
            burst => burst,
        };
        Rate { burst, interval }
    }

    /// Creates a bucket of `burst` units that is refilled at `rate` units per second, or slightly
    /// fewer if the interval is not a whole number of nanoseconds.
    pub const fn per_second(burst: u64, rate: u64) -> Self {
        let rate = if rate == 0 { 1 } else { rate };
        Rate::new(
            burst,
            Duration::from_nanos(1_000_000_000_u64.div_ceil(rate)),
        )
    }

    /// Returns a bucket that is `times` times as large and fills in the same time.
    pub const fn times(self, times: u64) -> Self {
        let interval = self.interval.div_ceil(times);
        Rate::new(
            self.burst.saturating_mul(times),
            Duration::from_nanos(interval),
        )
    }

    /// Returns the maximum number of units.
    pub const fn burst(self) -> u64 {
        self.burst
    }

    /// Returns the number of units that are refilled in a second, rounded down.
    pub const fn units_per_second(self) -> u64 {
        1_000_000_000 / self.interval
    }

    /// Returns the time to fill an empty bucket, in whole seconds, rounded up.
    pub const fn window_seconds(self) -> u64 {
        self.window().div_ceil(1_000_000_000)
    }

    const fn window(self) -> u64 {
        self.burst * self.interval
    }

    /// Returns the time at which a bucket that is full at `whole_at` would be full after taking
    /// `cost` more units.
    fn after(self, whole_at: u64, now: u64, cost: u64) -> u64 {
        let cost = cost.saturating_mul(self.interval);
        whole_at.max(now).saturating_add(cost)
    }

    /// Takes `cost` units at `now` if the bucket has them.
    pub(super) fn take(self, whole_at: &mut u64, now: u64, cost: u64) -> bool {
        let after = self.after(*whole_at, now, cost);
        let is_there = after - now <= self.window();
        if is_there {
            *whole_at = after;
        }
        is_there
    }

    /// Takes `cost` units at `now`, and goes into debt if the bucket has too few.
    pub(super) fn charge(self, whole_at: &mut u64, now: u64, cost: u64) {
        *whole_at = self.after(*whole_at, now, cost);
    }

    /// Returns units to the bucket.
    pub(super) fn give_back(self, whole_at: &mut u64, cost: u64) {
        *whole_at = whole_at.saturating_sub(cost.saturating_mul(self.interval));
    }

    /// Returns the nanoseconds from `now` until the bucket has `cost` units; 0 if the bucket has
    /// these units already.
    pub(super) fn wait(self, whole_at: u64, now: u64, cost: u64) -> u64 {
        let room = now.saturating_add(self.window());
        self.after(whole_at, now, cost).saturating_sub(room)
    }

    /// Returns the number of units at `now`.
    pub(super) fn remaining(self, whole_at: u64, now: u64) -> u64 {
        let missing = whole_at.saturating_sub(now);
        self.window().saturating_sub(missing) / self.interval
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// A straightforward model of a bucket with fractional units.
    struct Model {
        rate: Rate,
        /// Content in units times `interval`, so that nothing is rounded.
        level: u64,
        at: u64,
    }

    impl Model {
        fn new(rate: Rate) -> Self {
            let level = rate.burst * rate.interval;
            Model { rate, level, at: 0 }
        }

        fn take(&mut self, now: u64, cost: u64) -> bool {
            let full = self.rate.burst * self.rate.interval;
            self.level = (self.level + (now - self.at)).min(full);
            self.at = now;
            let price = cost * self.rate.interval;
            let is_there = price <= self.level;
            if is_there {
                self.level -= price;
            }
            is_there
        }
    }

    fn rates() -> impl Strategy<Value = Rate> {
        (1..50_u64, 1..1000_u64)
            .prop_map(|(burst, interval)| Rate::new(burst, Duration::from_nanos(interval)))
    }

    /// Generates intervals between requests, and the cost of each.
    fn requests() -> impl Strategy<Value = Vec<(u64, u64)>> {
        vec((0..3000_u64, 1..20_u64), 1..200)
    }

    proptest! {
        #[test]
        fn it_does_what_the_model_does(rate in rates(), requests in requests()) {
            let (mut model, mut whole_at, mut now) = (Model::new(rate), 0, 0);
            for (later, cost) in requests {
                now += later;
                prop_assert_eq!(rate.take(&mut whole_at, now, cost), model.take(now, cost));
                prop_assert_eq!(rate.remaining(whole_at, now), model.level / rate.interval);
            }
        }

        #[test]
        fn no_window_has_more_than_the_burst_and_what_came_back(
            rate in rates(), requests in requests()
        ) {
            let (mut whole_at, mut now, mut taken) = (0, 0, Vec::new());
            for (later, cost) in requests {
                now += later;
                if rate.take(&mut whole_at, now, cost) {
                    taken.push((now, cost));
                }
            }
            for (first, (from, _)) in taken.iter().enumerate() {
                let mut sum = 0;
                for (to, cost) in &taken[first..] {
                    sum += cost;
                    prop_assert!(sum * rate.interval <= rate.window() + (to - from));
                }
            }
        }

        #[test]
        fn who_keeps_to_it_is_never_refused(rate in rates(), requests in requests()) {
            // A client that exceeds the rate waits for the price of each request after its savings
            // are used.
            let (mut whole_at, mut now, mut saved) = (0, 0, rate.burst * rate.interval);
            for (later, cost) in requests {
                let price = cost.min(rate.burst) * rate.interval;
                let wait = later.max(price.saturating_sub(saved));
                now += wait;
                saved = (saved + wait).min(rate.burst * rate.interval) - price;
                prop_assert!(rate.take(&mut whole_at, now, cost.min(rate.burst)));
            }
        }

        #[test]
        fn the_wait_is_true(rate in rates(), requests in requests()) {
            let (mut whole_at, mut now) = (0, 0);
            for (later, cost) in requests {
                let cost = cost.min(rate.burst);
                now += later;
                let wait = rate.wait(whole_at, now, cost);
                let passes = |at| {
                    let mut then = whole_at;
                    rate.take(&mut then, at, cost)
                };
                if wait > 0 {
                    prop_assert!(!passes(now + wait - 1));
                }
                prop_assert!(passes(now + wait));
                // The charge may exceed the units in the bucket.
                rate.charge(&mut whole_at, now, cost);
            }
        }

        #[test]
        fn what_is_given_back_was_never_taken(rate in rates(), spent in 0..40_u64, cost in 1..20_u64) {
            let mut whole_at = 0;
            rate.charge(&mut whole_at, 5000, spent);
            let before = (whole_at.max(5000), rate.remaining(whole_at, 5000));
            rate.charge(&mut whole_at, 5000, cost);
            rate.give_back(&mut whole_at, cost);
            prop_assert_eq!((whole_at, rate.remaining(whole_at, 5000)), before);
        }
    }

    #[test]
    fn extremes_neither_overflow_nor_divide_by_nothing() {
        for rate in [
            Rate::per_second(0, 0),
            Rate::per_second(u64::MAX, u64::MAX),
            Rate::new(u64::MAX, Duration::MAX),
            Rate::new(1, Duration::ZERO),
            Rate::per_second(u64::MAX, 1).times(u64::MAX),
        ] {
            let mut whole_at = 0;
            assert!(rate.take(&mut whole_at, u64::MAX / 2, 1), "{rate:?}");
            assert!(!rate.take(&mut whole_at, u64::MAX / 2, u64::MAX));
            rate.charge(&mut whole_at, u64::MAX / 2, u64::MAX);
            assert_eq!(rate.remaining(whole_at, u64::MAX / 2), 0);
            assert!(rate.wait(whole_at, u64::MAX / 2, 1) > 0);
            assert!(rate.window_seconds() >= 1);
        }
    }

    #[test]
    fn a_rate_is_never_above_what_was_asked_for() {
        assert_eq!(Rate::per_second(5000, 500).interval, 2_000_000);
        assert_eq!(Rate::per_second(5000, 500).window_seconds(), 10);
        assert_eq!(Rate::per_second(5, 3).interval, 333_333_334);
        let four = Rate::per_second(5000, 500).times(4);
        assert_eq!((four.burst, four.window_seconds()), (20_000, 10));
    }
}
