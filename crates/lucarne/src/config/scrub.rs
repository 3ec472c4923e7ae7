//! `scrub` and `scrubwindow`: rate and time of day of the periodic verification of a log's files.

use std::num::NonZeroU64;
use std::path::Path;

use lucarne_log::{ScrubConfig, ScrubWindow};
use lucarne_settings::form::One;

/// Default rate for a directory, in bytes per second. A pass over a terabyte takes two days, and
/// leaves a hard disk enough time for other requests.
const RATE: NonZeroU64 = NonZeroU64::new(5_000_000).unwrap();

/// Files to read, and the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// No files.
    None,
    /// Random files, a few per minute.
    Sample,
    /// All files, at this rate in bytes per second.
    All(NonZeroU64),
}

/// Rate and time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrub {
    pub(super) extent: Extent,
    pub(super) window: Option<ScrubWindow>,
}

impl Default for Scrub {
    /// Returns the settings of a log on a disk.
    fn default() -> Self {
        Scrub {
            extent: Extent::All(RATE),
            window: None,
        }
    }
}

impl Scrub {
    /// Returns the settings of a log in a bucket: samples, because requests to a bucket cost money.
    pub(super) fn in_bucket() -> Self {
        Scrub {
            extent: Extent::Sample,
            window: None,
        }
    }

    /// Returns the settings for the `log` crate; `None` if scrubbing is off. The position is stored
    /// in `cache`.
    pub(crate) fn config(self, cache: &Path) -> Option<ScrubConfig> {
        let position = cache.join("scrub");
        let config = match self.extent {
            Extent::None => return None,
            Extent::All(bytes_per_second) => ScrubConfig::new(bytes_per_second, position),
            Extent::Sample => ScrubConfig::of_samples(position),
        };
        Some(ScrubConfig {
            window: self.window,
            ..config
        })
    }
}

/// The form of `scrub`.
pub(super) const EXTENTS: One<Extent, &str> = One::new(extent).shown(|extent| match extent {
    Extent::None => "`off`".to_owned(),
    Extent::Sample => "`sample`".to_owned(),
    Extent::All(rate) => format!("{}MB/s", rate.get() as f64 / 1e6),
});

/// Text for an invalid rate.
const NO_RATE: &str = "must be a rate such as 20MB/s or 500kB/s, `sample` or `off`";

/// Parses a number of bytes per second, `sample` or `off`.
fn extent(text: &str) -> Result<Extent, &'static str> {
    match text {
        "off" => return Ok(Extent::None),
        "sample" => return Ok(Extent::Sample),
        _ => {}
    }
    let units = [("MB/s", 1_000_000), ("kB/s", 1000)];
    let found = units.iter().find_map(|(unit, bytes)| {
        let number = text.strip_suffix(unit)?.trim_end();
        let number: u64 = number.parse().ok()?;
        NonZeroU64::new(number.checked_mul(*bytes)?)
    });
    found.map(Extent::All).ok_or(NO_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let all = |bytes| Ok(Extent::All(NonZeroU64::new(bytes).unwrap()));
        assert_eq!(extent("20MB/s"), all(20_000_000));
        assert_eq!(extent("500 kB/s"), all(500_000));
        assert_eq!(extent("sample"), Ok(Extent::Sample));
        assert_eq!(extent("off"), Ok(Extent::None));
        for text in [
            "",
            "20",
            "0MB/s",
            "-1MB/s",
            "20MiB",
            "20mb/s",
            "99999999999999MB/s",
        ] {
            assert_eq!(extent(text), Err(NO_RATE), "{text}");
        }
    }
}
