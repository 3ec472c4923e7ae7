//! The duration of rounds, and the maximum number of old entries in the next round.

use std::time::Duration;

/// Maximum time that old entries add to a round. A fresh entry waits for the current round and for
/// its own round: old entries therefore delay it by at most twice this time.
const LENGTHENING: Duration = Duration::from_millis(250);
/// Minimum number of old entries that a round admits. A wrong estimate must not starve old entries.
const LEAST: usize = 16;
/// Number of old entries that a round may have after a round of any size. After larger rounds, the
/// limit is twice the number of entries in the last round, because a round does not predict the
/// cost of much larger rounds.
const FIRST: usize = 64;
/// Each new round multiplies the weight of all earlier rounds by this factor. About three rounds
/// determine the result.
const KEPT: f64 = 0.7;
/// If rounds differ by less than this part of their entries, they do not show the cost of an entry.
const ALIKE: f64 = 0.05;

/// A line through the last rounds by least squares, weighted towards the newest rounds: a constant
/// time, plus a time per entry.
///
/// Only the slope limits old entries, not the duration of a round. A bucket may respond slowly
/// regardless of the amount of data, so smaller rounds would not help. A disk with slow writes is
/// different.
#[derive(Debug, Default)]
pub(super) struct RoundCost {
    /// The weighted sums of 1, entries, seconds, entries², and entries × seconds.
    rounds: f64,
    entries: f64,
    seconds: f64,
    squares: f64,
    products: f64,
    /// The slope: seconds per entry; 0 until measured.
    per_entry: f64,
    /// Entries of the last round.
    last: usize,
    /// The typical time between the starts of two rounds, in seconds.
    distance: f64,
}

impl RoundCost {
    /// Records a round with this duration. `distance` is the minimum time between the starts of two
    /// rounds.
    pub(super) fn note(&mut self, entries: usize, took: Duration, distance: Duration) {
        let (n, t) = (entries as f64, took.as_secs_f64());
        let distance = distance.as_secs_f64();
        self.distance = if self.rounds == 0.0 {
            distance
        } else {
            KEPT * self.distance + (1.0 - KEPT) * distance
        };
        let add = |sum: &mut f64, value: f64| *sum = KEPT * *sum + value;
        add(&mut self.rounds, 1.0);
        add(&mut self.entries, n);
        add(&mut self.seconds, t);
        add(&mut self.squares, n * n);
        add(&mut self.products, n * t);
        self.learn();
        self.last = entries;
    }

    fn learn(&mut self) {
        let mean = self.entries / self.rounds;
        let variance = self.squares / self.rounds - mean * mean;
        let covariance = (self.products - mean * self.seconds) / self.rounds;
        if variance <= (ALIKE * mean).powi(2).max(1.0) {
            // Rounds of equal size do not show the cost of an entry. The next round is therefore
            // somewhat larger.
            self.per_entry *= 0.9;
        } else if covariance > 0.0 {
            self.per_entry = covariance / variance;
        } else {
            // Larger rounds did not take longer.
            self.per_entry *= 0.5;
        }
    }

    /// Returns the typical time between the starts of two rounds; zero before the first round.
    pub(super) fn distance(&self) -> Duration {
        Duration::from_secs_f64(self.distance)
    }

    /// Returns the entries per second of the last rounds; 0 before the first round.
    pub(super) fn rate(&self) -> f64 {
        if self.rounds * self.distance > 0.0 {
            self.entries / self.rounds / self.distance
        } else {
            0.0
        }
    }

    /// Returns the maximum number of old entries in the next round.
    pub(super) fn room(&self) -> usize {
        // If entries cost nothing, the quotient is infinite, and the cast gives the maximum.
        let by_cost = (LENGTHENING.as_secs_f64() / self.per_entry) as usize;
        let by_growth = FIRST.max(self.last.saturating_mul(2));
        by_cost.min(by_growth).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs rounds with `fresh` and `old` entries per millisecond at this cost in ms. Old entries
    /// are limited by the room of the round. Returns the duration of each round.
    fn rounds(cost: &mut RoundCost, fixed: f64, each: f64, count: usize) -> Vec<f64> {
        let (fresh, old) = (0.05, 0.4);
        let (mut took, mut waiting) = (200.0_f64, 0.0);
        let mut all = Vec::new();
        for _ in 0..count {
            waiting += old * took.max(200.0);
            let taken = (waiting as usize).min(cost.room()).min(1000);
            waiting = (waiting - taken as f64).min(1000.0);
            let entries = taken + (fresh * took.max(200.0)) as usize;
            took = fixed + each * entries as f64;
            let duration = Duration::from_secs_f64(took / 1000.0);
            cost.note(entries, duration, duration);
            all.push(took);
        }
        all
    }

    #[test]
    fn a_disk_that_writes_slowly_gets_short_rounds() {
        for each in [3.0, 5.0, 8.0] {
            let mut cost = RoundCost::default();
            rounds(&mut cost, 5.0, 0.05, 50);
            let slow = rounds(&mut cost, 20.0, each, 50);
            let longest = slow.iter().copied().fold(0.0, f64::max);
            let last = &slow[10..];
            let usual = last.iter().copied().fold(0.0, f64::max);
            assert!(longest <= 1800.0 && usual <= 750.0, "{each}: {slow:?}");
        }
    }

    #[test]
    fn a_store_that_answers_late_gets_all_there_is() {
        let mut cost = RoundCost::default();
        rounds(&mut cost, 5.0, 0.05, 50);
        rounds(&mut cost, 900.0, 0.05, 25);
        assert!(cost.room() >= 400, "{}", cost.room());
    }

    #[test]
    fn nothing_starves_and_nothing_grows_at_once() {
        let mut cost = RoundCost::default();
        assert_eq!((cost.room(), cost.distance()), (FIRST, Duration::ZERO));
        let second = Duration::from_secs(1);
        cost.note(100, second, second);
        assert_eq!((cost.room(), cost.distance()), (200, second));
        cost.note(200, 100 * second, 100 * second);
        assert_eq!(cost.room(), LEAST);
    }

    #[test]
    fn the_rate_is_that_of_the_last_rounds() {
        let mut cost = RoundCost::default();
        assert_eq!(cost.rate(), 0.0);
        let second = Duration::from_secs(1);
        cost.note(100, second, 2 * second);
        assert_eq!(cost.rate(), 50.0);
        for _ in 0..50 {
            cost.note(300, second, second);
        }
        assert!((299.0..301.0).contains(&cost.rate()), "{}", cost.rate());
    }
}
