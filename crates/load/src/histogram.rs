//! Histograms of durations.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::Serialize;

/// Resolution in nanoseconds: closer durations may be equal in a histogram.
const RESOLUTION: u64 = 128;
/// Longest duration in nanoseconds: one day. Longer durations count as one day.
const LONGEST: u64 = 86_400_000_000_000;
const DIGITS: u8 = 3;

/// A histogram of durations with three significant digits, and their exact sum, minimum and
/// maximum.
///
/// A histogram takes no memory until the first duration is recorded. Then the memory depends on the
/// longest duration: 64 kB for ten milliseconds. Two histograms can be merged without loss.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use lucarne_load::Histogram;
///
/// let mut histogram = Histogram::new();
/// for ms in [10, 20, 30] {
///     histogram.record(Duration::from_millis(ms));
/// }
/// assert_eq!(histogram.count(), 3);
/// assert_eq!(histogram.sum(), Duration::from_millis(60));
/// let median = histogram.percentile(50.0).as_secs_f64();
/// assert!((0.0199..0.0201).contains(&median));
/// ```
#[derive(Clone, Default)]
pub struct Histogram {
    counts: Option<Box<Hdr<u64>>>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Histogram {
    /// Creates an empty histogram.
    pub fn new() -> Self {
        Histogram::default()
    }

    /// Records a duration.
    pub fn record(&mut self, value: Duration) {
        let nanos = u64::try_from(value.as_nanos()).map_or(LONGEST, |nanos| nanos.min(LONGEST));
        if self.is_empty() || nanos < self.min {
            self.min = nanos;
        }
        self.max = self.max.max(nanos);
        self.sum += u128::from(nanos);
        let recorded = self.counts.get_or_insert_with(empty).record(nanos);
        debug_assert!(recorded.is_ok(), "a day fits in");
    }

    /// Adds the durations of another histogram without loss.
    pub fn merge(&mut self, other: &Histogram) {
        let Some(theirs) = other.counts.as_ref().filter(|counts| !counts.is_empty()) else {
            return;
        };
        self.min = if self.is_empty() {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        let mine = self.counts.get_or_insert_with(empty);
        let grown = mine.add(&**theirs);
        debug_assert!(grown.is_ok(), "a day fits in");
    }

    /// Removes all durations but keeps the memory.
    pub(crate) fn clear(&mut self) {
        if let Some(counts) = self.counts.as_mut().filter(|counts| !counts.is_empty()) {
            counts.reset();
        }
        (self.sum, self.min, self.max) = (0, 0, 0);
    }

    /// Returns the number of recorded durations.
    pub fn count(&self) -> u64 {
        self.counts.as_ref().map_or(0, |counts| counts.len())
    }

    /// Returns whether there are no durations.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Returns the sum of all durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.sum).unwrap_or(u64::MAX))
    }

    /// Returns the shortest duration; zero when empty.
    pub fn min(&self) -> Duration {
        Duration::from_nanos(self.min)
    }

    /// Returns the longest duration; zero when empty.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// Returns the percentile `p` between 0 and 100, by linear interpolation between the neighbours
    /// of rank p·(n−1), as in k6; zero when empty.
    pub fn percentile(&self, p: f64) -> Duration {
        self.percentiles(&[p])[0]
    }

    /// Returns several percentiles in the given order, for the cost of a single percentile.
    pub fn percentiles(&self, ps: &[f64]) -> Vec<Duration> {
        let Some(last) = self.count().checked_sub(1) else {
            return vec![Duration::ZERO; ps.len()];
        };
        let places: Vec<f64> = ps
            .iter()
            .map(|p| p.clamp(0.0, 100.0) / 100.0 * last as f64)
            .collect();
        let mut ranks: Vec<u64> = places
            .iter()
            .flat_map(|place| [place.floor() as u64, place.ceil() as u64])
            .collect();
        ranks.sort_unstable();
        ranks.dedup();
        let values = self.at_ranks(&ranks, last);
        let value = |rank: u64| {
            ranks
                .binary_search(&rank)
                .map_or(0.0, |found| values[found])
        };
        let between = |place: &f64| {
            let (low, high) = (value(place.floor() as u64), value(place.ceil() as u64));
            Duration::from_nanos((low + (high - low) * place.fract()).round() as u64)
        };
        places.iter().map(between).collect()
    }

    /// Returns the durations at ascending ranks, which count from 0, in nanoseconds.
    fn at_ranks(&self, ranks: &[u64], last: u64) -> Vec<f64> {
        let mut values = Vec::with_capacity(ranks.len());
        let mut seen = 0;
        for (value, count) in self.buckets() {
            seen += count;
            while let Some(rank) = ranks.get(values.len()).filter(|rank| **rank < seen) {
                values.push(match *rank {
                    0 => self.min as f64,
                    rank if rank == last => self.max as f64,
                    _ => value.as_nanos() as f64,
                });
            }
        }
        values.resize(ranks.len(), self.max as f64);
        values
    }

    /// Returns whether sum, minimum and maximum are possible for the number of durations.
    pub(crate) fn is_consistent(&self) -> bool {
        let bound = |nanos: u64| u128::from(self.count()) * u128::from(nanos);
        // In a file, the sum is at most `u64::MAX`.
        let is_capped = self.sum >= u128::from(u64::MAX);
        let is_low = self.sum < bound(self.min) && !is_capped;
        self.min <= self.max && self.sum <= bound(self.max) && !is_low
    }

    /// Returns the non-empty buckets in ascending order: the middle of each, and the number of
    /// durations in it.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let (min, max) = (self.min, self.max);
        self.counts.iter().flat_map(move |counts| {
            counts.iter_recorded().map(move |bucket| {
                let middle = counts.median_equivalent(bucket.value_iterated_to());
                (
                    Duration::from_nanos(middle.clamp(min, max)),
                    bucket.count_since_last_iteration(),
                )
            })
        })
    }

    /// Returns the number of durations of at most this length, by whole buckets.
    pub fn count_up_to(&self, value: Duration) -> u64 {
        let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.counts
            .as_ref()
            .map_or(0, |counts| counts.count_between(0, nanos.min(LONGEST)))
    }

    /// Returns the mean; zero when empty.
    pub fn mean(&self) -> Duration {
        match u128::from(self.count()) {
            0 => Duration::ZERO,
            count => Duration::from_nanos((self.sum / count) as u64),
        }
    }
}

fn empty() -> Box<Hdr<u64>> {
    let mut counts = Hdr::new_with_bounds(RESOLUTION, 2 * RESOLUTION, DIGITS)
        .unwrap_or_else(|_| unreachable!("constants"));
    counts.auto(true);
    Box::new(counts)
}

/// Text that is not an encoded histogram.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a histogram: {0}")]
pub struct HistogramError(String);

impl Histogram {
    /// Encodes the counts as HdrHistogram V2 with DEFLATE in base64; an empty histogram is an empty
    /// text. Values are in nanoseconds. Sum, minimum and maximum are not included.
    pub(crate) fn encode(&self) -> String {
        let Some(counts) = self.counts.as_ref().filter(|counts| !counts.is_empty()) else {
            return String::new();
        };
        let mut bytes = Vec::new();
        match V2DeflateSerializer::new().serialize(counts, &mut bytes) {
            Ok(_) => base64_simd::STANDARD.encode_to_string(bytes),
            Err(error) => unreachable!("writing to a vector cannot fail: {error}"),
        }
    }

    /// Decodes the text of [`encode`](Histogram::encode), with the exact figures.
    pub(crate) fn decode(text: &str, exact: Exact) -> Result<Self, HistogramError> {
        let mut histogram = Histogram::new();
        if text.is_empty() {
            return Ok(histogram);
        }
        let problem = |problem: &dyn fmt::Display| HistogramError(problem.to_string());
        let bytes = base64_simd::STANDARD
            .decode_to_vec(text)
            .map_err(|error| problem(&error))?;
        let counts: Hdr<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| problem(&error))?;
        let mut own = empty();
        own.add(counts).map_err(|error| problem(&error))?;
        histogram.counts = Some(own);
        (histogram.sum, histogram.min, histogram.max) = (exact.sum.into(), exact.min, exact.max);
        Ok(histogram)
    }

    /// Returns sum, minimum and maximum in nanoseconds.
    pub(crate) fn exact(&self) -> Exact {
        Exact {
            sum: u64::try_from(self.sum).unwrap_or(u64::MAX),
            min: self.min,
            max: self.max,
        }
    }
}

/// Exact figures of a histogram, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, serde::Deserialize)]
pub(crate) struct Exact {
    pub(crate) sum: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("min", &self.min())
            .field("mean", &self.mean())
            .field("max", &self.max())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(nanos: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        nanos
            .iter()
            .for_each(|nanos| histogram.record(Duration::from_nanos(*nanos)));
        histogram
    }

    fn same(a: &Histogram, b: &Histogram) -> bool {
        let figures = |h: &Histogram| (h.count(), h.sum(), h.min(), h.max());
        figures(a) == figures(b) && a.buckets().eq(b.buckets())
    }

    #[test]
    fn exact_figures_match_the_number_of_durations() {
        assert!(Histogram::new().is_consistent());
        let good = of(&[100, 200, 300]);
        assert!(good.is_consistent());
        let exact = good.exact();
        for wrong in [
            Exact { min: 301, ..exact },
            Exact { sum: 299, ..exact },
            Exact { sum: 901, ..exact },
        ] {
            let read = Histogram::decode(&good.encode(), wrong).unwrap();
            assert!(!read.is_consistent(), "{wrong:?}");
        }
    }

    /// Computes a percentile of the samples themselves, by linear interpolation at p·(n−1).
    fn percentile(sorted: &[u64], p: f64) -> f64 {
        let place = p / 100.0 * (sorted.len() - 1) as f64;
        let (low, high) = (
            sorted[place.floor() as usize],
            sorted[place.ceil() as usize],
        );
        low as f64 + (high as f64 - low as f64) * place.fract()
    }

    #[test]
    fn an_empty_one_takes_no_memory_and_has_no_figures() {
        let histogram = Histogram::new();
        assert!(histogram.counts.is_none() && histogram.is_empty());
        assert_eq!(histogram.percentiles(&[50.0, 99.0]), [Duration::ZERO; 2]);
        assert_eq!(
            (histogram.mean(), histogram.max()),
            (Duration::ZERO, Duration::ZERO)
        );
    }

    #[test]
    fn beyond_a_day_is_a_day() {
        let mut histogram = Histogram::new();
        histogram.record(Duration::MAX);
        assert_eq!(histogram.max(), Duration::from_nanos(LONGEST));
        assert_eq!(histogram.percentile(50.0), Duration::from_nanos(LONGEST));
    }

    #[test]
    fn cleared_it_is_as_new() {
        let mut histogram = of(&[5_000, 1_000_000]);
        histogram.clear();
        assert!(histogram.is_empty());
        histogram.record(Duration::from_micros(7));
        assert!(same(&histogram, &of(&[7_000])));
    }

    #[test]
    fn ten_milliseconds_take_some_64_kilobytes() {
        let histogram = of(&[10_000_000]);
        let slots = histogram
            .counts
            .map_or(0, |counts| counts.distinct_values());
        assert!(slots * 8 <= 80_000, "{slots} slots");
    }

    #[test]
    fn damaged_text_is_refused() {
        for text in ["%", "AAAA", "HISTFAAAAB4="] {
            assert!(Histogram::decode(text, Exact::default()).is_err(), "{text}");
        }
    }

    fn nanos() -> impl Strategy<Value = Vec<u64>> {
        let any = prop_oneof![0..1_000_u64, 0..10_000_000_u64, 0..LONGEST];
        prop::collection::vec(any, 1..200)
    }

    proptest! {
        #[test]
        fn merging_loses_nothing(a in nanos(), b in nanos()) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert!(same(&merged, &of(&[a, b].concat())));
        }

        #[test]
        fn text_loses_nothing(a in nanos(), b in nanos()) {
            let read = |h: &Histogram| Histogram::decode(&h.encode(), h.exact());
            let (mut merged, other) = (read(&of(&a)).unwrap(), read(&of(&b)).unwrap());
            prop_assert!(same(&merged, &of(&a)));
            merged.merge(&other);
            prop_assert!(same(&merged, &of(&[a, b].concat())));
        }

        #[test]
        fn percentiles_are_right_to_three_digits(mut samples in nanos(), p in 0.0..100.0) {
            let found = of(&samples).percentile(p).as_nanos() as f64;
            samples.sort_unstable();
            let expected = percentile(&samples, p);
            // The resolution is 128 ns; rounding to the middle of a bucket loses half of it.
            prop_assert!((found - expected).abs() <= 130.0 + expected / 1000.0, "{found} {expected}");
        }
    }
}
