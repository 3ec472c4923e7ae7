//! Options of `rest`.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use lucarne_settings::typed;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::files::{self, FileError};
use super::rows::DataOptions;
use crate::connection_options::{ConnectionOptions, HandshakeOptions, Pause, StatusRange};
use crate::option_values::TimeSpan;
use crate::s3::Size;

/// Requests of the scenario, and the settings for sending them.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RestOptions {
    /// URL of the one request, with templates ({{unique}}, {{counter(to=99)}}, …) in path and query
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// URL to which the paths of requests are added
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Method [default: GET, with a body POST]
    #[arg(long, value_name = "NAME")]
    pub method: Option<String>,
    /// A header of every request; may be repeated
    #[arg(
        long,
        visible_alias = "header",
        short = 'H',
        value_name = "NAME: VALUE"
    )]
    #[serde(deserialize_with = "headers")]
    pub headers: Vec<Header>,
    /// Body, as text; @FILE for the bytes of a file
    #[arg(long, value_name = "TEXT", conflicts_with = "json")]
    pub body: Option<String>,
    /// Body, as JSON; @FILE for the JSON of a file; in a plan also written as YAML
    #[arg(long, value_name = "JSON")]
    pub json: Option<Json>,
    /// Requests from a file in either of vegeta's formats, one after the other; `-` is standard
    /// input
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// Expected statuses (201, 2xx) [default: 2xx; for --targets also 3xx]
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    #[serde(deserialize_with = "typed::list")]
    pub expect: Vec<StatusRange>,
    /// Time between two requests of an iteration, and after the last (1s, 500ms..2s)
    #[arg(long, value_name = "TIME")]
    pub think_time: Option<Pause>,
    /// Random wait of up to this time before an iteration; latency counts from the end of the wait
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(0))]
    pub jitter: TimeSpan,
    /// Lifetime of a connection
    #[arg(long, value_enum, default_value_t)]
    pub connections: Connections,
    /// Connections to the servers.
    #[command(flatten)]
    #[serde(rename = "..connection")]
    pub connection: ConnectionOptions,
    /// TLS handshakes with the servers.
    #[command(flatten)]
    #[serde(rename = "..handshake")]
    pub handshake: HandshakeOptions,
    /// Largest number of redirects to follow for a request
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub redirects: u32,
    /// Lifetime of cookies
    #[arg(long, value_enum, default_value_t)]
    pub cookies: Cookies,
    /// Tags of k6 to add to requests
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub system_tags: Vec<SystemTag>,
    /// Limit of all response bodies in memory together, decoded or not; bodies that no check needs
    /// are not kept
    #[arg(long, value_name = "SIZE", default_value_t = Size(256 << 20))]
    pub max_body: Size,

    /// Files with rows of values by name: an iteration uses one row of each.
    #[arg(skip)]
    pub data: BTreeMap<String, DataOptions>,
    /// Values by name, computed once per iteration.
    #[arg(skip)]
    pub vars: Pairs,
    /// Checks of the response to the one request.
    #[arg(skip)]
    pub checks: Vec<CheckOptions>,
    /// Requests of an iteration, in order.
    #[arg(skip)]
    pub steps: Vec<Step>,
    /// Requests of which an iteration sends one, by weight.
    #[arg(skip)]
    pub requests: Vec<Step>,
    /// Requests before the load, once per run.
    #[arg(skip)]
    pub setup: Vec<Step>,
    /// Requests before the first iteration of each user.
    #[arg(skip)]
    pub user_setup: Vec<Step>,
    /// Requests after the load, once per run.
    #[arg(skip)]
    pub teardown: Vec<Step>,
}

/// Keys that exist only in plans.
pub(crate) const STRUCTURED: &[&str] = &[
    "data",
    "vars",
    "checks",
    "steps",
    "requests",
    "setup",
    "userSetup",
    "teardown",
];

/// A request of a list.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    /// Name in reports: the value of the tag `op`.
    pub name: String,
    /// Weight among the requests; 1 by default.
    pub weight: Option<f64>,
    /// HTTP method.
    pub method: Option<String>,
    /// URL, or a path that is added to `baseUrl`.
    pub url: String,
    /// Headers in addition to the common headers.
    #[serde(deserialize_with = "headers")]
    pub headers: Vec<Header>,
    /// Body as text.
    pub body: Option<String>,
    /// Body as JSON.
    pub json: Option<Json>,
    /// Expected statuses.
    #[serde(deserialize_with = "typed::list")]
    pub expect: Vec<StatusRange>,
    /// Further checks of the response.
    pub checks: Vec<CheckOptions>,
    /// Values to capture from the response, for the rest of the iteration.
    #[serde(deserialize_with = "pairs")]
    pub capture: Vec<(String, Place)>,
    /// Values to capture from the response, for the rest of the user's life.
    #[serde(deserialize_with = "pairs")]
    pub remember: Vec<(String, Place)>,
    /// Counters by name, of the responses with a property.
    #[serde(deserialize_with = "pairs")]
    pub counters: Vec<(String, CheckOptions)>,
    /// Rates by name, of the responses with a property.
    #[serde(deserialize_with = "pairs")]
    pub rates: Vec<(String, CheckOptions)>,
    /// Condition without which the request is not sent: `name`, `name == text`, `name != text`.
    #[serde(rename = "if")]
    pub condition: Option<String>,
    /// Largest number of redirects to follow, if it differs from the common number.
    pub redirects: Option<u32>,
    /// Requests that are sent concurrently, instead of a single one.
    pub parallel: Vec<Step>,
    /// Pause after the request.
    pub think_time: Option<Pause>,
}

/// A place of a response whose value is captured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// JSON pointer, or `header:NAME`.
    pub place: String,
    /// Choice from several values.
    pub pick: Option<Pick>,
    /// Whether the value may be missing.
    pub optional: bool,
}

/// Keys of a [`Place`].
#[derive(Deserialize)]
#[serde(remote = "Place", deny_unknown_fields)]
struct PlaceKeys {
    place: String,
    #[serde(default)]
    pick: Option<Pick>,
    #[serde(default)]
    optional: bool,
}

/// Deserializes a text, or a map.
impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Place;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a place, or a map with `place`, `pick` and `optional`")
            }

            fn visit_str<E: de::Error>(self, place: &str) -> Result<Place, E> {
                Ok(Place {
                    place: place.to_owned(),
                    ..Place::default()
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Place, A::Error> {
                PlaceKeys::deserialize(de::value::MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Choice from several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    /// Each value has the same probability.
    Random,
}

/// Lifetime of cookies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cookies {
    /// Are not stored
    #[default]
    None,
    /// Last as long as their user
    User,
    /// Last for one iteration
    Iteration,
}

/// A tag of k6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemTag {
    /// Name of the request, like `op`
    Name,
    /// Whether the request had success
    #[value(name = "expected_response")]
    ExpectedResponse,
}

/// A check of a response: one place in it, and one or more conditions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CheckOptions {
    /// Name in reports.
    pub name: Option<String>,
    /// Place: a JSON pointer (RFC 6901) into the body; `/` alone means the whole body.
    pub json: Option<String>,
    /// Place: a header.
    pub header: Option<String>,
    /// Place: the whole body, as text.
    pub body: bool,
    /// Whether the place must exist.
    pub exists: Option<bool>,
    /// Expected value: the exact text, or the number as text.
    pub equals: Option<String>,
    /// Text that the value must contain.
    pub contains: Option<String>,
    /// JSON type of the value.
    #[serde(rename = "type")]
    pub kind: Option<JsonType>,
    /// Number of items, keys or characters of the value.
    pub length: Option<Length>,
}

/// A JSON type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JsonType {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A number.
    Number,
    /// `true` or `false`
    Boolean,
    /// `null`
    Null,
}

/// An exact length, or a bound: `50`, `>0`, `<=50`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Smallest length.
    pub least: u64,
    /// Largest length.
    pub most: u64,
}

/// The text is not a [`Length`]. The message follows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a length such as 50, >0 or <=50")]
#[non_exhaustive]
pub struct LengthError;

impl FromStr for Length {
    type Err = LengthError;

    fn from_str(text: &str) -> Result<Self, LengthError> {
        let at = text
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(text.len());
        let (sign, number) = (text[..at].trim(), text[at..].trim());
        let number: u64 = number.parse().map_err(|_| LengthError)?;
        let (least, most) = match sign {
            "" | "=" | "==" => (number, number),
            ">" => (number.saturating_add(1), u64::MAX),
            ">=" => (number, u64::MAX),
            "<" if number > 0 => (0, number - 1),
            "<=" => (0, number),
            _ => return Err(LengthError),
        };
        Ok(Self { least, most })
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        typed::parsed(deserializer)
    }
}

/// Lifetime of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connections {
    /// Lasts as long as its user
    #[default]
    User,
    /// Lasts for one iteration
    Iteration,
    /// Lasts for one request
    Request,
}

/// A header: its name, and the template of its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Header(pub String, pub String);

/// Reasons why a text is not a [`Header`]. The message follows the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The text has no colon, or no name before the colon.
    #[error("is not a header such as Accept: text/plain")]
    Format,
    /// The file with the value cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

impl FromStr for Header {
    type Err = HeaderError;

    fn from_str(text: &str) -> Result<Self, HeaderError> {
        match text.split_once(':') {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok(Self(name.trim().into(), files::text(value.trim())?))
            }
            _ => Err(HeaderError::Format),
        }
    }
}

/// Omits the value, which may be a secret.
impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Header").field(&self.0).finish()
    }
}

/// Deserializes a map, or a list of texts in the format of the flag.
pub(crate) fn headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Header>, D::Error> {
    fn header<E: de::Error>(text: &str) -> Result<Header, E> {
        text.parse()
            .map_err(|why: HeaderError| E::custom(format!("`{text}` {why}")))
    }
    struct Either;
    impl<'de> Visitor<'de> for Either {
        type Value = Vec<Header>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of headers, or a list of `Name: value`")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut headers = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, String>()? {
                let value = files::text(&value).map_err(de::Error::custom)?;
                headers.push(Header(name, value));
            }
            Ok(headers)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut headers = Vec::new();
            while let Some(text) = list.next_element::<String>()? {
                headers.push(header(&text)?);
            }
            Ok(headers)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec![header(text)?])
        }

        fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
    }
    deserializer.deserialize_any(Either)
}

/// JSON, written in a plan as YAML, or as a text of JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Json(pub serde_json::Value);

/// Reasons why a text is not [`Json`]. The message follows the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The text, or the content of its file, is not JSON.
    #[error("is not JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

impl FromStr for Json {
    type Err = JsonError;

    fn from_str(text: &str) -> Result<Self, JsonError> {
        Ok(Self(serde_json::from_str(&files::text(text)?)?))
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text
                .parse()
                .map_err(|why: JsonError| de::Error::custom(format!("`{text}` {why}"))),
            value => Ok(Self(value)),
        }
    }
}

/// Pairs of name and text, in the written order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        pairs(deserializer).map(Self)
    }
}

/// Deserializes a map in the written order, without repeated names.
fn pairs<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, T)>, D::Error> {
    struct Map<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Map<T> {
        type Value = Vec<(String, T)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of names")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs: Vec<(String, T)> = Vec::new();
            while let Some((name, value)) = map.next_entry()? {
                if pairs.iter().any(|(known, _)| *known == name) {
                    return Err(de::Error::custom(format!("`{name}` is given twice")));
                }
                pairs.push((name, value));
            }
            Ok(pairs)
        }
    }
    deserializer.deserialize_map(Map(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let read = |text: &str| text.parse::<Length>();
        assert_eq!(
            read("50"),
            Ok(Length {
                least: 50,
                most: 50
            })
        );
        assert_eq!(read("< 50"), Ok(Length { least: 0, most: 49 }));
        for wrong in ["", "long", "<0", "!50"] {
            assert_eq!(read(wrong), Err(LengthError), "{wrong}");
        }
        assert_eq!(
            LengthError.to_string(),
            "is not a length such as 50, >0 or <=50"
        );
    }

    #[test]
    fn headers_and_json() {
        for wrong in ["Accept", ": text/plain"] {
            let error = wrong.parse::<Header>().unwrap_err();
            assert!(matches!(error, HeaderError::Format), "{wrong}");
            assert_eq!(
                error.to_string(),
                "is not a header such as Accept: text/plain"
            );
        }
        let error = "A: @/no/such/file".parse::<Header>().unwrap_err();
        assert!(matches!(error, HeaderError::File(_)));
        let error = "@/no/such/file".parse::<Json>().unwrap_err();
        assert!(matches!(error, JsonError::File(_)));
        let error = "{".parse::<Json>().unwrap_err();
        assert!(matches!(error, JsonError::Syntax(_)));
        assert!(error.to_string().starts_with("is not JSON: EOF"));
    }
}
