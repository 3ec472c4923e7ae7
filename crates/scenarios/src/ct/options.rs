//! Pieces of options that both CT scenarios share.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lucarne_settings::{typed, values};
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
        values::duration(text).map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&values::show_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        typed::parsed(deserializer)
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
        values::time(text).map(|unix_ms| Self { unix_ms })
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        typed::parsed(deserializer)
    }
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl Share {
    fn new(value: f64) -> Result<Self, String> {
        match (0.0..=1.0).contains(&value) {
            true => Ok(Self(value)),
            false => Err("is not a share: it goes from 0 to 1".to_owned()),
        }
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().map_err(|_| "is not a number".to_owned())?;
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
        typed::parsed(deserializer)
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

#[cfg(test)]
mod tests {
    use clap::Parser;
    use lucarne_settings::values::show_duration;
    use lucarne_settings::{Report, tree, typed};

    use crate::ct::options::{Http, Share};
    use crate::ct::{read, write};

    #[derive(Parser)]
    struct Write {
        #[command(flatten)]
        options: write::Options,
    }

    #[derive(Parser)]
    struct Read {
        #[command(flatten)]
        options: read::Options,
    }

    /// What neither the command line nor a plan says is the same in both.
    #[test]
    fn one_set_of_defaults() {
        let flags = Write::try_parse_from(["write"]).unwrap().options;
        assert_eq!(flags, write::Options::default());
        assert_eq!(flags, serde_json::from_str("{}").unwrap());
        let flags = Read::try_parse_from(["read"]).unwrap().options;
        assert_eq!(flags, read::Options::default());
        assert_eq!(flags, serde_json::from_str("{}").unwrap());
    }

    #[test]
    fn flags_and_keys_say_the_same() {
        let flags = Write::try_parse_from([
            "write",
            "--log_url",
            "http://a/",
            "--log-url=http://b/",
            "--log_public_key",
            "AAEC",
            "--dup_chance=0.25",
            "--issuers",
            "p384",
            "--http",
            "2",
            "--mmd",
            "1m30s",
            "--not-after-limit",
            "2027-01-01",
            "--expect-restarts",
            "--audit=none",
        ]);
        let keys = r#"{"logUrl":["http://a/","http://b/"],"logPublicKey":["AAEC"],
            "duplicates":"0.25","issuers":"p384","http":"2","mmd":"90s",
            "notAfterLimit":"2027-01-01T00:00:00Z","expectRestarts":true,"audit":"none"}"#;
        let flags = flags.unwrap().options;
        assert_eq!(flags, serde_json::from_str(keys).unwrap());
        assert_eq!(show_duration(flags.mmd.0), "1m30s");

        let flags = [
            "read",
            "--reads",
            "entries:3,issuers",
            "--compression=zstd",
            "--cache",
        ];
        let keys = r#"{"reads":["entries:3","issuers:1"],"compression":"zstd","cache":true}"#;
        let flags = Read::try_parse_from(flags).unwrap().options;
        assert_eq!(flags, serde_json::from_str(keys).unwrap());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(serde_json::from_str::<write::Options>(r#"{"lgoUrl":["x"]}"#).is_err());
        for flag in [
            "--precerts=1.5",
            "--mmd=10",
            "--issuers=dsa",
            "--not-after-start=soon",
        ] {
            assert!(Write::try_parse_from(["write", flag]).is_err(), "{flag}");
        }
        for flag in ["--reads=leaves:1", "--reads=tiles:x", "--full-readers=-1"] {
            assert!(Read::try_parse_from(["read", flag]).is_err(), "{flag}");
        }
    }

    /// A plan is YAML: what looks like a number there is read as well.
    #[test]
    fn numbers_of_a_plan() {
        let read = |yaml: &str| {
            let known = ["http", "duplicates", "precerts", "ahead", "logUrl"];
            let node = tree::parse(yaml).unwrap();
            let mut report = Report::on(None);
            typed::read::<write::Options>(&node, "", &known, &mut report).unwrap()
        };
        let options =
            read("http: 2\nduplicates: 0.25\nprecerts: 1\nahead: 100\nlogUrl: http://a\n");
        assert_eq!((options.http, options.ahead), (Http::V2, 100));
        assert_eq!(
            (options.duplicates, options.precerts),
            (Share(0.25), Share(1.0))
        );
        assert_eq!(options.log_url, ["http://a"]);
        assert_eq!(read("http: 1.1\n").http, Http::V1);
    }
}
