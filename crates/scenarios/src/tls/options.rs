//! Options of `tls`.

use clap::Args;
use lucarne_ct::Fingerprint;
use lucarne_settings::typed;
use serde::Deserialize;

use crate::connection_options::{ConnectionOptions, HandshakeOptions, StatusRange};
use crate::option_values::TimeSpan;
use crate::rest::Header;

/// Server and checks of the scenario.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[command(
    mut_arg("insecure", |it| it.help("Do not check the certificate's names and chain")),
    mut_arg("resume", |it| it.help("Resume the session of the user's last connection")),
    mut_arg("server_name", |it| it.help(
        "Server name in TLS, which the certificate must contain, instead of the URL's host"
    )),
    mut_arg("timeout", |it| it.help(
        "Time limit of an iteration's request, including connecting"
    ))
)]
#[serde(default, rename_all = "camelCase")]
pub struct TlsScenarioOptions {
    /// The server (https://host:port)
    #[arg(
        long,
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    pub url: String,
    /// Path to request after the handshake; without it no request is sent
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Method of the request
    #[arg(long, value_name = "NAME", default_value = "GET")]
    pub method: String,
    /// A header of the request; may be repeated
    #[arg(
        long,
        visible_alias = "header",
        short = 'H',
        value_name = "NAME: VALUE"
    )]
    #[serde(deserialize_with = "crate::rest::headers")]
    pub headers: Vec<Header>,
    /// Expected statuses of the response (200, 2xx) [default: 2xx, 3xx]
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    #[serde(deserialize_with = "typed::list")]
    pub expect: Vec<StatusRange>,
    /// TLS handshakes with the server.
    #[command(flatten)]
    #[serde(rename = "..handshake")]
    pub handshake: HandshakeOptions,
    /// Minimum remaining validity of the certificate
    #[arg(long, value_name = "TIME")]
    pub expiry_margin: Option<Days>,
    /// SHA-256 of the certificate in hexadecimal; any of several
    #[arg(long, value_name = "HEX", value_delimiter = ',')]
    #[serde(deserialize_with = "typed::list")]
    pub fingerprint: Vec<Fingerprint>,
    /// Minimum number of SCTs of the certificate
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_scts: u32,
    /// Random wait of up to this time before an iteration; latency counts from the end of the wait
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(0))]
    pub jitter: TimeSpan,
    /// Connections to the server.
    #[command(flatten)]
    #[serde(rename = "..connection")]
    pub connection: ConnectionOptions,
}

/// A duration that may be written in days: `14d`, `36h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Days(pub std::time::Duration);

/// The text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a duration such as 14d or 36h")]
pub struct DaysError;

impl std::str::FromStr for Days {
    type Err = DaysError;

    fn from_str(text: &str) -> Result<Self, DaysError> {
        match text.strip_suffix('d').map(str::parse::<u32>) {
            Some(Ok(days)) => Ok(Self(std::time::Duration::from_secs(
                u64::from(days) * 86_400,
            ))),
            _ => lucarne_settings::values::duration(text)
                .map(Self)
                .map_err(|_| DaysError),
        }
    }
}

impl<'de> Deserialize<'de> for Days {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        typed::parsed(deserializer)
    }
}
