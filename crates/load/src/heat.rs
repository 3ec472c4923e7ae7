//! Durations in the buckets of a heat map.

use std::time::Duration;

/// The number of buckets of a heat strip.
pub const HEAT: usize = 24;

/// The upper ends of the buckets of a heat strip: 100 µs, then evenly on a
/// logarithmic scale up to 60 s. The first bucket has everything below, the last
/// one everything above.
pub fn heat_bounds() -> [Duration; HEAT] {
    let ratio = (60.0_f64 / 100e-6).powf(1.0 / (HEAT as f64 - 1.0));
    std::array::from_fn(|bucket| Duration::from_secs_f64(100e-6 * ratio.powi(bucket as i32)))
}
