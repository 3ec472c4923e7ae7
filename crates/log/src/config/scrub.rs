//! The settings of the scrubber.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::scrub_window::ScrubWindow;

/// The rate and the schedule at which the scrubber reads the files of a log.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU64;
///
/// use lucarne_log::ScrubConfig;
///
/// let rate = NonZeroU64::new(4 << 20).expect("the rate is not zero");
/// let nights = ScrubConfig {
///     window: Some("22:00-06:00".parse()?),
///     ..ScrubConfig::new(rate, "scrub/position".into())
/// };
/// assert!(!nights.sampling);
/// assert!(ScrubConfig::of_samples("scrub/position".into()).sampling);
/// # Ok::<(), lucarne_log::NoWindow>(())
/// ```
#[derive(Clone, Debug)]
pub struct ScrubConfig {
    /// Maximum rate in stored bytes per second.
    pub bytes_per_second: NonZeroU64,
    /// The hours of the day at which files are read. `None` means the whole day.
    pub window: Option<ScrubWindow>,
    /// The file that keeps the position across restarts. If the file is lost, the pass starts
    /// again.
    pub position: PathBuf,
    /// The pause after startup, because the startup itself reads from storage.
    pub delay: Duration,
    /// Minimum time from the start of one pass to the start of the next pass.
    pub interval: Duration,
    /// If `true`, a pass is one random tile and one listing of a directory of tiles.
    pub sampling: bool,
}

/// The rate at which a sample is read, in bytes per second.
const SAMPLE_RATE: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();

impl ScrubConfig {
    /// Returns a configuration for passes at this rate. The first pass starts ten seconds after
    /// startup, and each other pass at least one hour after the start of the previous pass.
    pub fn new(bytes_per_second: NonZeroU64, position: PathBuf) -> Self {
        ScrubConfig {
            bytes_per_second,
            window: None,
            position,
            delay: Duration::from_secs(10),
            interval: Duration::from_secs(3600),
            sampling: false,
        }
    }

    /// Returns a configuration for passes of one random tile and one listing every two minutes.
    /// Storage that charges for requests gets only a few requests per minute.
    pub fn of_samples(position: PathBuf) -> Self {
        ScrubConfig {
            delay: Duration::from_secs(60),
            interval: Duration::from_secs(120),
            sampling: true,
            ..ScrubConfig::new(SAMPLE_RATE, position)
        }
    }
}
