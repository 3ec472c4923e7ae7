//! The settings of the scrubber.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use super::window::ScrubWindow;

/// The rate and the times at which the files of a log are read.
#[derive(Clone, Debug)]
pub struct ScrubConfig {
    /// Most bytes per second, as they are stored.
    pub bytes_per_second: NonZeroU64,
    /// The time of the day; all of it if there is none.
    pub window: Option<ScrubWindow>,
    /// The file that keeps the position across restarts. It can be lost: then the
    /// pass begins anew.
    pub position: PathBuf,
    /// The pause after a start, which has other things to read.
    pub delay: Duration,
    /// Shortest time from the begin of one pass to that of the next.
    pub interval: Duration,
    /// A pass is one random tile, and a listing of one directory of tiles.
    pub sampling: bool,
}

/// The rate at which a sample is read.
const SAMPLE_RATE: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();

impl ScrubConfig {
    /// Passes at this rate that begin ten seconds after a start, and an hour apart
    /// at least.
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

    /// One random tile and one listing every two minutes: a few requests a minute, for storage
    /// where requests are paid.
    pub fn of_samples(position: PathBuf) -> Self {
        ScrubConfig {
            delay: Duration::from_secs(60),
            interval: Duration::from_secs(120),
            sampling: true,
            ..ScrubConfig::new(SAMPLE_RATE, position)
        }
    }
}
