//! Connection options that scenarios over HTTP and TLS share. Each group is flattened into the
//! flags of a scenario, and read from the keys of its `options` in a plan.

use std::fmt::{self, Display};
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use lucarne_load::http::{Client, ClientOptions, Identity, TlsOptions, TlsVersion, Version};
use lucarne_load::{Failure, PrepareError};
use lucarne_settings::{typed, values};
use serde::{Deserialize, Deserializer};

use crate::option_values::{HttpVersion, TimeSpan};
use crate::preparing::Retries;
use crate::random::Random;

/// A TLS version to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
pub enum OfferedTls {
    /// TLS 1.2
    #[value(name = "1.2")]
    #[serde(rename = "1.2")]
    V1_2,
    /// TLS 1.3
    #[value(name = "1.3")]
    #[serde(rename = "1.3")]
    V1_3,
}

/// A host with its address, written `HOST=ADDRESS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolveOverride(pub String, pub IpAddr);

/// The text is not a [`ResolveOverride`]. The message follows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not HOST=ADDRESS")]
#[non_exhaustive]
pub struct ResolveOverrideError;

impl FromStr for ResolveOverride {
    type Err = ResolveOverrideError;

    fn from_str(text: &str) -> Result<Self, ResolveOverrideError> {
        let pair = text
            .split_once('=')
            .and_then(|(host, address)| Some(Self(host.to_owned(), address.parse().ok()?)));
        pair.ok_or(ResolveOverrideError)
    }
}

/// A fixed or a random duration: `1s`, `500ms..2s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Shortest duration.
    pub from: TimeSpan,
    /// Longest duration.
    pub to: TimeSpan,
}

impl Pause {
    /// Picks a random duration from the range.
    pub(crate) fn pick(self, random: &mut Random) -> std::time::Duration {
        let more = self.to.0.saturating_sub(self.from.0).as_nanos() as u64;
        self.from.0 + std::time::Duration::from_nanos(random.below(more.saturating_add(1)))
    }
}

/// Reasons why a [`Pause`] is invalid. The message follows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PauseError {
    /// A bound is not a duration.
    #[error(transparent)]
    End(#[from] values::ValueError),
    /// The upper bound is shorter than the lower bound.
    #[error("has a maximum below its minimum: write the shorter duration first")]
    Backwards,
}

impl FromStr for Pause {
    type Err = PauseError;

    fn from_str(text: &str) -> Result<Self, PauseError> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let span = |text: &str| values::duration(text.trim()).map(TimeSpan);
        let pause = Self {
            from: span(from)?,
            to: span(to)?,
        };
        if pause.from <= pause.to {
            Ok(pause)
        } else {
            Err(PauseError::Backwards)
        }
    }
}

impl<'de> Deserialize<'de> for Pause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        typed::parsed(deserializer)
    }
}

/// Expected statuses: `201`, `2xx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

impl StatusRange {
    /// Returns the range of this status only.
    #[must_use]
    pub const fn one(status: u16) -> Self {
        Self {
            first: status,
            last: status,
        }
    }

    /// Returns the hundred statuses of this class: 2 is `2xx`.
    pub(crate) const fn class(class: u16) -> Self {
        Self {
            first: class * 100,
            last: class * 100 + 99,
        }
    }

    /// Returns whether the range contains `status`.
    pub(crate) fn contain(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

/// The text is not a [`StatusRange`]. The message follows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a status such as 201 or 2xx")]
#[non_exhaustive]
pub struct StatusRangeError;

impl FromStr for StatusRange {
    type Err = StatusRangeError;

    fn from_str(text: &str) -> Result<Self, StatusRangeError> {
        let text = text.trim().to_ascii_lowercase();
        let all = text.strip_suffix("xx").and_then(|class| class.parse().ok());
        match (all, text.parse()) {
            (Some(class @ 1..=5), _) => Ok(Self::class(class)),
            (_, Ok(status @ 100..=599)) => Ok(Self::one(status)),
            _ => Err(StatusRangeError),
        }
    }
}

impl Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            f.pad(&self.first.to_string())
        } else {
            f.pad(&format!("{}xx", self.first / 100))
        }
    }
}

/// Formats statuses for messages, as in `201 or 2xx`.
pub(crate) fn list(statuses: &[StatusRange]) -> String {
    let texts: Vec<_> = statuses.iter().map(StatusRange::to_string).collect();
    texts.join(" or ")
}

/// Returns the expected statuses of a scenario that also accepts redirections by default.
pub(crate) fn expected(given: &[StatusRange]) -> Vec<StatusRange> {
    match given {
        [] => vec![StatusRange::class(2), StatusRange::class(3)],
        given => given.to_vec(),
    }
}

/// Version of HTTP, and trust in the server.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpOptions {
    /// Version of HTTP
    #[arg(long = "http", value_name = "HTTP", value_enum, default_value_t)]
    #[serde(rename = "http")]
    pub version: HttpVersion,
    /// Accept any TLS certificate
    #[arg(long)]
    pub insecure: bool,
    /// PEM file of certificates to trust besides the system's; may be repeated
    #[arg(long, value_name = "FILE")]
    pub ca: Vec<PathBuf>,
}

impl HttpOptions {
    /// Returns the options of a client of the server.
    pub(crate) fn client(&self) -> ClientOptions {
        ClientOptions {
            version: match self.version {
                HttpVersion::V1 => Version::Http1,
                HttpVersion::V2 => Version::Http2,
            },
            insecure: self.insecure,
            ca: self.ca.clone(),
            ..ClientOptions::default()
        }
    }
}

/// Options of the connections of most scenarios.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConnectionOptions {
    /// Version of HTTP, and trust in the server.
    #[command(flatten)]
    #[serde(rename = "..http")]
    pub http: HttpOptions,
    /// Time limit of a request
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(60))]
    pub timeout: TimeSpan,
    /// Address of a host that is not resolved by DNS
    #[arg(long, value_name = "HOST=ADDRESS")]
    #[serde(deserialize_with = "typed::list")]
    pub resolve: Vec<ResolveOverride>,
}

impl ConnectionOptions {
    /// Returns the options of a client with these connections.
    pub(crate) fn client(&self) -> ClientOptions {
        let resolve = self.resolve.iter();
        ClientOptions {
            timeout: self.timeout.0,
            resolve: resolve.map(|it| (it.0.clone(), it.1)).collect(),
            ..self.http.client()
        }
    }
}

/// Options of TLS handshakes.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HandshakeOptions {
    /// PEM file of the client's own certificate
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// PEM file of the key of the client's certificate
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Server name in TLS, instead of the URL's host
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// Versions of TLS to offer [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub tls_versions: Vec<OfferedTls>,
    /// Cipher suites to offer, by IANA's names [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub cipher_suites: Vec<String>,
    /// Groups for the key exchange, the preferred one first [default: the client's defaults]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub groups: Vec<String>,
    /// Resume TLS sessions of earlier connections
    #[arg(long)]
    pub resume: bool,
    /// Time limit of connecting and the TLS handshake together
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(10))]
    pub connect_timeout: TimeSpan,
}

impl HandshakeOptions {
    /// Returns the options of a client with these handshakes.
    pub(crate) fn client(
        self,
        connection: &ConnectionOptions,
    ) -> Result<ClientOptions, PrepareError> {
        let identity = match (self.cert, self.key) {
            (Some(certificates), Some(key)) => Some(Identity { certificates, key }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(wrong("`--cert` needs `--key`, the key of the certificate"));
            }
            (None, Some(_)) => {
                return Err(wrong("`--key` needs `--cert`, the certificate of the key"));
            }
        };
        let version = |version: &OfferedTls| match version {
            OfferedTls::V1_2 => TlsVersion::V1_2,
            OfferedTls::V1_3 => TlsVersion::V1_3,
        };
        Ok(ClientOptions {
            connect_timeout: self.connect_timeout.0,
            resume: self.resume,
            tls: TlsOptions {
                versions: self.tls_versions.iter().map(version).collect(),
                suites: given(self.cipher_suites),
                groups: given(self.groups),
                identity,
                server_name: self.server_name,
            },
            ..connection.client()
        })
    }
}

/// Drops empty texts, which result from `${NAME:-}` in a plan.
fn given(mut texts: Vec<String>) -> Vec<String> {
    texts.retain(|text| !text.is_empty());
    texts
}

/// Connects once, so that an error that would fail every request is reported before the first
/// request.
pub(crate) async fn reach(client: &mut Client) -> Result<(), PrepareError> {
    let authority = client.endpoint().authority.clone();
    let attempts = Retries::Brief.begin();
    while let Err(failure) = client.handshake().await.exchange.outcome {
        if attempts.again_after(&failure).await {
            continue;
        }
        let Failure { detail, .. } = failure;
        // The detail may already name the address.
        return Err(PrepareError::Unreachable(if detail.contains(&authority) {
            detail
        } else {
            format!("{authority} cannot be reached: {detail}")
        }));
    }
    Ok(())
}

pub(crate) fn wrong(message: impl Display) -> PrepareError {
    PrepareError::Configuration(message.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    #[test]
    fn statuses_and_pauses() {
        let read = |text: &str| text.parse::<StatusRange>();
        assert!(read("2xx").unwrap().contain(204) && !read("2xx").unwrap().contain(301));
        assert!(read("404").unwrap().contain(404) && !read("404").unwrap().contain(400));
        for wrong in ["", "xx", "6xx", "20", "600", "ok"] {
            assert_eq!(read(wrong), Err(StatusRangeError), "{wrong}");
        }
        assert_eq!(
            StatusRangeError.to_string(),
            "is not a status such as 201 or 2xx"
        );
        let both = [read("2XX").unwrap(), read("404").unwrap()];
        assert_eq!(list(&both), "2xx or 404");
        let pause: Pause = "10ms..20ms".parse().unwrap();
        let mut random = Random::new(1, 1);
        for _ in 0..100 {
            let picked = pause.pick(&mut random);
            assert!((pause.from.0..=pause.to.0).contains(&picked), "{picked:?}");
        }
        assert_eq!("2s..1s".parse::<Pause>(), Err(PauseError::Backwards));
        assert!("2".parse::<Pause>().is_err());
    }

    #[test]
    fn addresses_of_hosts() {
        let own: ResolveOverride = "a.test=127.0.0.1".parse().unwrap();
        assert_eq!(own.0, "a.test");
        for wrong in ["a.test", "a.test=", "a.test=b.test"] {
            let error = wrong.parse::<ResolveOverride>().unwrap_err();
            assert_eq!(error.to_string(), "is not HOST=ADDRESS", "{wrong}");
        }
    }

    /// Returns the files of two `--ca` flags.
    fn two_files<O: Args>(ca: fn(O) -> Vec<PathBuf>) -> Vec<PathBuf> {
        let command = O::augment_args(Command::new("load"));
        let matches = command.try_get_matches_from(["load", "--ca", "a.pem", "--ca", "b.pem"]);
        ca(O::from_arg_matches(&matches.unwrap()).unwrap())
    }

    #[test]
    fn ca_may_be_repeated() {
        for files in [
            two_files(|options: HttpOptions| options.ca),
            two_files(|options: crate::proxy::ProxyScenarioOptions| options.ca),
        ] {
            assert_eq!(files, [PathBuf::from("a.pem"), PathBuf::from("b.pem")]);
        }
    }
}
