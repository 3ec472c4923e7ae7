//! Option values that scenarios share.

use std::fmt;
use std::num::ParseFloatError;
use std::str::FromStr;
use std::time::Duration;

use lucarne_settings::typed;
use lucarne_settings::values::{self, ValueError};
use serde::{Deserialize, Deserializer};

/// A duration, written `60s`, `1m30s` or `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(pub Duration);

impl TimeSpan {
    /// Returns a span of this many seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Returns a span of this many milliseconds.
    #[must_use]
    pub const fn milliseconds(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }
}

impl FromStr for TimeSpan {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        values::duration(text).map(Self)
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&values::show_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        typed::parsed(deserializer)
    }
}

/// A point in time, written as RFC 3339 or as a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Milliseconds since 1970.
    pub unix_ms: u64,
}

impl Timestamp {
    /// Returns the seconds since 1970.
    #[must_use]
    pub fn unix(self) -> i64 {
        (self.unix_ms / 1000) as i64
    }
}

impl FromStr for Timestamp {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        values::time(text).map(|unix_ms| Self { unix_ms })
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        typed::parsed(deserializer)
    }
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Ratio(pub f64);

/// Reasons why a [`Ratio`] is invalid. The message follows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RatioError {
    /// The text is not a number.
    #[error("is not a number")]
    Number(#[from] ParseFloatError),
    /// The number is less than 0 or greater than 1.
    #[error("must be from 0 to 1")]
    Range,
}

impl FromStr for Ratio {
    type Err = RatioError;

    fn from_str(text: &str) -> Result<Self, RatioError> {
        let value: f64 = text.parse()?;
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(RatioError::Range)
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        typed::parsed(deserializer)
    }
}

/// HTTP version of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.1
    #[default]
    #[value(name = "1.1", alias = "1")]
    #[serde(rename = "1.1", alias = "1")]
    V1,
    /// HTTP/2
    #[value(name = "2")]
    #[serde(rename = "2")]
    V2,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_numbers_from_0_to_1() {
        assert_eq!("0.5".parse(), Ok(Ratio(0.5)));
        for wrong in ["-0.1", "1.1", "NaN"] {
            assert_eq!(wrong.parse::<Ratio>(), Err(RatioError::Range), "{wrong}");
        }
        let said = |text: &str| text.parse::<Ratio>().unwrap_err().to_string();
        assert_eq!(said("half"), "is not a number");
        assert_eq!(said("2"), "must be from 0 to 1");
    }
}
