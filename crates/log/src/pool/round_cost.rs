//! The time that rounds take, and the old entries for which the next one has time.

use std::time::Duration;

/// Time by which old entries may lengthen a round. A fresh entry waits for the round before its own,
/// and for its own: for twice that, at most, because of them.
const LENGTHENING: Duration = Duration::from_millis(250);
/// Old entries for which a round has time in any case: they are second, and not starved by an
/// estimate.
const LEAST: usize = 16;
/// Old entries that a round may have after any other. Beyond, it has twice as many as the round before
/// had entries: that one says little of a round that is much larger.
const FIRST: usize = 64;
/// Part of what is known of rounds that each new one leaves: some three count.
const KEPT: f64 = 0.7;
/// Rounds that differ by less than this part of their entries say nothing of what an entry costs.
const ALIKE: f64 = 0.05;

/// A line through the last rounds, by least squares, the newest counting most: a round takes so long,
/// and so much longer for each entry.
///
/// The slope is what matters, and not how long a round takes: a bucket may answer late whatever it is
/// sent, and to send it less would help nobody. A disk that writes slowly is another matter.
#[derive(Debug, Default)]
pub(super) struct RoundCost {
    /// The weighted sums of 1, entries, seconds, entries², and entries × seconds.
    rounds: f64,
    entries: f64,
    seconds: f64,
    squares: f64,
    products: f64,
    /// The slope: seconds by which an entry lengthens a round. Nothing, until any is seen.
    per_entry: f64,
    /// Entries of the last round.
    last: usize,
    /// The usual distance of two rounds, in seconds.
    distance: f64,
}

impl RoundCost {
    /// Notes a round that took so long; the next one began after `distance` at the earliest.
    pub(super) fn note(&mut self, entries: usize, took: Duration, distance: Duration) {
        let (n, t) = (entries as f64, took.as_secs_f64());
        let distance = distance.as_secs_f64();
        self.distance = match self.rounds == 0.0 {
            true => distance,
            false => KEPT * self.distance + (1.0 - KEPT) * distance,
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
            // Rounds of one size say nothing of others. So the next is somewhat larger.
            self.per_entry *= 0.9;
        } else if covariance > 0.0 {
            self.per_entry = covariance / variance;
        } else {
            // Larger rounds were no longer.
            self.per_entry *= 0.5;
        }
    }

    /// The usual distance of two rounds; nothing before the first.
    pub(super) fn distance(&self) -> Duration {
        Duration::from_secs_f64(self.distance)
    }

    /// Entries per second of the last rounds; 0 before the first.
    pub(super) fn rate(&self) -> f64 {
        match self.rounds * self.distance > 0.0 {
            true => self.entries / self.rounds / self.distance,
            false => 0.0,
        }
    }

    /// Old entries for which the next round has time.
    pub(super) fn room(&self) -> usize {
        // What lengthens nothing has room without end: a number beyond all becomes the greatest.
        let by_cost = (LENGTHENING.as_secs_f64() / self.per_entry) as usize;
        let by_growth = FIRST.max(self.last.saturating_mul(2));
        by_cost.min(by_growth).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds one after the other with `fresh` and `old` entries per second, as many of these as
    /// there is room for, at this cost (ms): the duration of each.
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
