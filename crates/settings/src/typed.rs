//! Reading a map of a file into a type that derives `Deserialize`.
//!
//! Serde stops at the first error. This module tries every key, so that a report has all errors
//! with their lines. For an unknown key, the report suggests the nearest known key. Missing fields
//! without a default are reported only if all other fields are valid.
//!
//! A field that is renamed to a name with two leading dots (`#[serde(rename = "..limits")]`) is a
//! group: its struct is read from the keys of the same map. A struct with groups and its groups
//! must not deny unknown fields; [`read`] reports unknown keys.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, de};

use crate::key;
use crate::report::Report;
use crate::section::{Section, join};
use crate::tree::{Entry, Node, Value};
use crate::values;

/// Reads `node` into a `T` with the keys `known`. `path` is the position of the node, for messages.
/// Returns `None` if a problem was reported.
pub fn read<T: DeserializeOwned>(
    node: &Node,
    path: &str,
    known: &[&str],
    report: &mut Report,
) -> Option<T> {
    let before = report.problems().len();
    Section::open(node, path, known, report)?;
    let entries: Vec<Entry> = match &node.value {
        Value::Map(entries) => entries
            .iter()
            .filter(|entry| known.contains(&entry.key.as_str()))
            .cloned()
            .collect(),
        _ => Vec::new(),
    };
    let whole = T::deserialize(&map(node.line, entries.clone()));
    let Err(error) = whole else {
        return whole.ok().filter(|_| report.problems().len() == before);
    };
    let faults = entries
        .into_iter()
        .filter_map(|entry| T::deserialize(&map(node.line, vec![entry])).err())
        .filter(|fault| !fault.missing)
        .collect::<Vec<_>>();
    // Each key is valid by itself, so the error concerns the whole map.
    let faults = if faults.is_empty() {
        vec![error]
    } else {
        faults
    };
    for fault in faults {
        let line = Some(fault.line.unwrap_or(node.line));
        report.problem(line, join(path, &fault.key), fault.message);
    }
    None
}

fn map(line: usize, entries: Vec<Entry>) -> Node {
    Node {
        line,
        value: Value::Map(entries),
    }
}

/// Parses a duration with [`values::duration`], for `#[serde(deserialize_with = …)]`.
///
/// # Errors
/// If the value is not a duration.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    text_with(deserializer, values::duration)
}

/// Parses any type with `FromStr`, for `#[serde(deserialize_with = …)]`. Command line flags accept
/// the same texts.
///
/// # Errors
/// The error of the parser, after the text.
pub fn parsed<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    text_with(deserializer, values::parsed)
}

/// Parses an optional value; the field needs `#[serde(default)]`.
///
/// # Errors
/// The error of the parser, after the text.
pub fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    parsed(deserializer).map(Some)
}

/// Parses a list of values.
///
/// # Errors
/// The error of the parser, after the text.
pub fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parse = |text: String| {
        text.parse()
            .map_err(|error| de::Error::custom(format!("`{text}` {error}")))
    };
    texts.into_iter().map(parse).collect()
}

fn text_with<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    parser: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    parser(&text).map_err(|why| D::Error::custom(format!("`{text}` {why}")))
}

/// The error of a node that does not fit its type.
#[derive(Debug)]
pub struct SettingsError {
    /// Line of the innermost invalid value.
    pub line: Option<usize>,
    /// Key of that value, relative to the node that was read.
    pub key: String,
    /// Message that follows the key.
    pub message: String,
    /// Whether the key is missing instead of invalid.
    pub missing: bool,
}

impl SettingsError {
    fn new(message: String) -> Self {
        SettingsError {
            line: None,
            key: String::new(),
            message,
            missing: false,
        }
    }

    /// Returns the same error, relative to the enclosing map or list.
    pub(crate) fn under(mut self, key: &str, line: usize) -> Self {
        self.line.get_or_insert(line);
        self.key = if self.key.starts_with('[') {
            format!("{key}{}", self.key)
        } else {
            join(key, &self.key)
        };
        self
    }
}

impl de::Error for SettingsError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        SettingsError::new(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        SettingsError {
            key: field.to_owned(),
            missing: true,
            ..SettingsError::new("is missing".to_owned())
        }
    }

    fn duplicate_field(field: &'static str) -> Self {
        SettingsError {
            key: field.to_owned(),
            ..SettingsError::new("is given twice".to_owned())
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        SettingsError {
            key: field.to_owned(),
            ..SettingsError::new(key::unknown(field, expected))
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        SettingsError::new(format!("`{variant}` is not one of {}", expected.join(", ")))
    }

    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        SettingsError::new(format!("must be {expected}"))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            de::Unexpected::Str(text) => format!("`{text}`"),
            de::Unexpected::Unsigned(number) => format!("`{number}`"),
            de::Unexpected::Signed(number) => format!("`{number}`"),
            other => other.to_string(),
        };
        SettingsError::new(format!("{found} is not {expected}"))
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => f.write_str(&self.message),
            key => write!(f, "{key}: {}", self.message),
        }
    }
}

impl std::error::Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", default, deny_unknown_fields)]
    struct Options {
        log_url: Option<String>,
        #[serde(deserialize_with = "duration")]
        max_delay: Duration,
        dup_chance: f64,
        http2: bool,
        issuer: Kind,
        sizes: Vec<u32>,
        #[serde(deserialize_with = "list")]
        addresses: Vec<std::net::IpAddr>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        #[default]
        Rsa,
        Webpki,
    }

    const KNOWN: &[&str] = &[
        "logUrl",
        "maxDelay",
        "dupChance",
        "http2",
        "issuer",
        "sizes",
        "addresses",
    ];

    fn options(yaml: &str) -> (Option<Options>, Vec<String>) {
        let root = tree::parse(yaml).unwrap();
        let mut report = Report::on(Some(std::path::Path::new("p")));
        let read = read(&root, "options", KNOWN, &mut report);
        (read, report.problem_lines())
    }

    #[test]
    fn values_become_what_the_type_wants() {
        let (options, said) = options(
            "logUrl: 2026\nmaxDelay: 1m30s\ndupChance: 1\nhttp2: true\nissuer: webpki\n\
             sizes: [1, 2]\naddresses: ::1\n",
        );
        assert_eq!(said, Vec::<String>::new());
        let options = options.unwrap();
        assert_eq!(options.log_url.as_deref(), Some("2026"));
        assert_eq!(options.max_delay, Duration::from_secs(90));
        assert_eq!(options.issuer, Kind::Webpki);
        assert_eq!(options.sizes, [1, 2]);
        assert_eq!(options.addresses.len(), 1);
    }

    #[test]
    fn every_problem_has_its_line() {
        let (options, said) = options(
            "logURL: x\nmaxDelay: soon\ndupChance: often\nhttp2: perhaps\nissuer: web\n\
             sizes:\n  - 1\n  - two\ncolour: red\n",
        );
        assert!(options.is_none());
        assert_eq!(
            said,
            [
                "p:1: options.logURL: no such key; did you mean `logUrl`?",
                "p:2: options.maxDelay: `soon` is not a duration such as 60s, 5m, 1m30s or 500ms",
                "p:3: options.dupChance: `often` is not a number",
                "p:4: options.http2: `perhaps` is neither true nor false",
                "p:5: options.issuer: `web` is not one of rsa, webpki",
                "p:8: options.sizes[1]: `two` is not a whole number",
                "p:9: options.colour: no such key; the keys are logUrl, maxDelay, dupChance, http2, \
                 issuer, sizes, addresses",
            ]
        );
    }

    #[test]
    fn nothing_written_is_the_default() {
        assert_eq!(options("").0, Some(Options::default()));
        assert_eq!(options("maxDelay:\n").0, Some(Options::default()));
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Grouped {
        name: String,
        #[serde(rename = "..first")]
        first: Inner,
        #[serde(rename = "..second")]
        second: Second,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Inner {
        size: u32,
        ports: Vec<u16>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Second {
        kind: Kind,
    }

    #[test]
    fn groups_are_read_from_the_keys_of_the_same_map() {
        let known = ["name", "size", "ports", "kind"];
        let grouped = |yaml: &str| {
            let mut report = Report::on(Some(std::path::Path::new("p")));
            let read = read::<Grouped>(&tree::parse(yaml).unwrap(), "o", &known, &mut report);
            (read, report.problem_lines())
        };
        let expected = Grouped {
            name: "2".into(),
            first: Inner {
                size: 3,
                ports: vec![4],
            },
            second: Second { kind: Kind::Webpki },
        };
        let text = "size: 3\nname: 2\nkind: webpki\nports: 4\n";
        assert_eq!(grouped(text), (Some(expected), Vec::new()));
        assert_eq!(grouped("").0, Some(Grouped::default()));
        let (_, said) =
            grouped("size: x\nname: a\nports:\n- 1\n- y\n..first: 1\nkind: z\nkind: rsa\n");
        assert_eq!(
            said,
            [
                "p:1: o.size: `x` is not a whole number",
                "p:5: o.ports[1]: `y` is not a whole number from 0 to 65535",
                "p:6: o...first: no such key; the keys are name, size, ports, kind",
                "p:7: o.kind: `z` is not one of rsa, webpki",
                "p:8: o.kind: is given twice, first on line 7",
            ]
        );
    }

    #[derive(Debug, Deserialize)]
    struct Wanting {
        #[allow(dead_code)]
        url: String,
    }

    #[test]
    fn a_missing_key_is_the_fault_of_the_map() {
        let root = tree::parse("\na: \n").unwrap();
        let mut report = Report::on(None);
        assert!(read::<Wanting>(&root, "o", &["url", "a"], &mut report).is_none());
        assert_eq!(report.problem_lines(), ["o.url: is missing"]);
    }
}
