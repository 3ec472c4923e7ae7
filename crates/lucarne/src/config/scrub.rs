//! `scrub` and `scrubwindow`: the rate and the time of the day at which the files
//! of a log are read again and again.

use std::num::NonZeroU64;
use std::path::Path;

use lucarne_log::{ScrubConfig, ScrubWindow};
use lucarne_settings::Reader;

use super::place::DataPlace;

/// Bytes per second from a directory if `scrub` is not given: a pass over a
/// terabyte takes two days, and a disk that turns has time for all else.
const RATE: u64 = 5_000_000;

/// The rate and the time of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrub {
    bytes_per_second: NonZeroU64,
    window: Option<ScrubWindow>,
}

/// Both keys, as far as they are given.
#[derive(Default)]
pub(super) struct Keys {
    rate: Option<Option<NonZeroU64>>,
    window: Option<ScrubWindow>,
}

/// Reads both keys.
pub(super) fn read(reader: &mut Reader<'_, '_>) -> Keys {
    Keys {
        rate: reader.value("scrub", rate),
        window: reader.value("scrubwindow", str::parse),
    }
}

impl Keys {
    /// The settings of a log with these data; `None` if it is not to be scrubbed.
    /// What is in a bucket is only if that is asked for: its requests are paid.
    pub(super) fn of(self, data: &DataPlace) -> Option<Scrub> {
        let usual = match data {
            DataPlace::Directory(_) => NonZeroU64::new(RATE),
            DataPlace::Bucket(_) => None,
        };
        Some(Scrub {
            bytes_per_second: self.rate.unwrap_or(usual)?,
            window: self.window,
        })
    }
}

impl Scrub {
    /// Returns what the `log` crate needs to know; the position is kept in `cache`.
    pub(crate) fn config(self, cache: &Path) -> ScrubConfig {
        ScrubConfig {
            window: self.window,
            ..ScrubConfig::new(self.bytes_per_second, cache.join("scrub"))
        }
    }
}

/// The words for a text that is no rate.
const NO_RATE: &str = "is not a rate, such as 20MB/s or 500kB/s, nor off";

/// A number of bytes per second; `None` if it is `off`.
fn rate(text: &str) -> Result<Option<NonZeroU64>, &'static str> {
    if text == "off" {
        return Ok(None);
    }
    let units = [("MB/s", 1_000_000), ("kB/s", 1000)];
    let found = units.iter().find_map(|(unit, bytes)| {
        let number = text.strip_suffix(unit)?.trim_end();
        let number: u64 = number.parse().ok()?;
        NonZeroU64::new(number.checked_mul(*bytes)?)
    });
    found.map(Some).ok_or(NO_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let bytes = |text| rate(text).map(|rate| rate.map(NonZeroU64::get));
        assert_eq!(bytes("20MB/s"), Ok(Some(20_000_000)));
        assert_eq!(bytes("500 kB/s"), Ok(Some(500_000)));
        assert_eq!(bytes("off"), Ok(None));
        for text in [
            "",
            "20",
            "0MB/s",
            "-1MB/s",
            "20MiB",
            "20mb/s",
            "99999999999999MB/s",
        ] {
            assert_eq!(bytes(text), Err(NO_RATE), "{text}");
        }
    }
}
