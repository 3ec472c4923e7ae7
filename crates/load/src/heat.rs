//! Buckets of a heat map of durations.

use std::time::Duration;

/// Number of buckets of a heat strip.
pub const HEAT: usize = 24;

/// Returns the upper bounds of the buckets: 100 µs, then evenly on a logarithmic scale up to 60 s.
/// The first bucket contains all shorter durations, the last bucket all longer durations.
pub fn heat_bounds() -> [Duration; HEAT] {
    let ratio = (60.0_f64 / 100e-6).powf(1.0 / (HEAT as f64 - 1.0));
    std::array::from_fn(|bucket| Duration::from_secs_f64(100e-6 * ratio.powi(bucket as i32)))
}
