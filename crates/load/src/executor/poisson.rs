//! Random arrivals.

use crate::random::Random;

/// Stream of the random numbers of arrivals; users have the streams of their numbers.
const STREAM: u64 = u64::MAX - 1;

/// A Poisson process of rate 1, with one arrival per unit of time on average. A schedule maps the
/// times of this process to the times of its own rate.
#[derive(Debug)]
pub(crate) struct Poisson {
    random: Random,
    /// Number of the next arrival.
    next: u64,
    /// Time of the arrival before.
    time: f64,
}

impl Poisson {
    pub(crate) fn new(seed: u64) -> Self {
        Poisson {
            random: Random::new(seed, STREAM),
            next: 0,
            time: 0.0,
        }
    }

    /// Returns the time of arrival `number`, which must not decrease between two calls.
    pub(crate) fn time(&mut self, number: u64) -> f64 {
        while self.next <= number {
            self.time -= (1.0 - self.random.fraction()).ln();
            self.next += 1;
        }
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(seed: u64, numbers: impl Iterator<Item = u64>) -> Vec<f64> {
        let mut poisson = Poisson::new(seed);
        numbers.map(|number| poisson.time(number)).collect()
    }

    #[test]
    fn distances_are_independent_and_one_on_average() {
        const COUNT: usize = 100_000;
        let times = times(7, 0..COUNT as u64);
        let end = times[COUNT - 1];
        // The standard deviation is 316.
        assert!((end - COUNT as f64).abs() < 2000.0, "{end}");
        // In a Poisson process, counts per interval have a variance equal to their mean.
        let mut counts = vec![0.0; COUNT / 10];
        for time in times {
            if let Some(count) = counts.get_mut((time / 10.0) as usize) {
                *count += 1.0;
            }
        }
        let squares = counts.iter().map(|count: &f64| (count - 10.0).powi(2));
        let variance = squares.sum::<f64>() / counts.len() as f64;
        assert!((9.0..11.0).contains(&variance), "{variance}");
    }

    #[test]
    fn a_seed_repeats_the_arrivals_for_any_number_of_workers() {
        let all = times(7, 0..1000);
        assert_eq!(times(7, 0..1000), all);
        assert_ne!(times(8, 0..1000), all);
        for worker in 0..3 {
            let own = times(7, (worker..1000).step_by(3));
            let expected = all.iter().skip(worker as usize).step_by(3);
            assert!(own.iter().eq(expected), "worker {worker}");
        }
    }
}
