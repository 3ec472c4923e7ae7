//! Pieces of options that both CT scenarios share.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lucarne_settings::values;
use serde::{Deserialize, Deserializer};

/// A length of time, written `60s`, `1m30s` or `500ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// So many seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        values::duration(text)
            .map(Self)
            .map_err(|problem| format!("`{text}` {problem}"))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&values::show_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A moment, written as RFC 3339 or as a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub unix_ms: u64,
}

impl Moment {
    /// Seconds since 1970.
    #[must_use]
    pub fn unix(self) -> i64 {
        (self.unix_ms / 1000) as i64
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unix_ms = values::time(text).map_err(|problem| format!("`{text}` {problem}"))?;
        Ok(Self { unix_ms })
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl Share {
    fn new(value: f64) -> Result<Self, String> {
        match (0.0..=1.0).contains(&value) {
            true => Ok(Self(value)),
            false => Err(format!("{value} is not a share: it goes from 0 to 1")),
        }
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text
            .parse()
            .map_err(|_| format!("`{text}` is not a number"))?;
        Self::new(number)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
pub enum Http {
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

/// How much of the log is read back and checked beside the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Audit {
    /// Nothing: only the answers themselves
    None,
    /// Checkpoints and hash tiles: consistency, and inclusion of every SCT'd entry
    Inclusion,
    /// Data tiles and issuers too
    #[default]
    Full,
}
