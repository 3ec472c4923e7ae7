//! Options of `acme`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lucarne_mint::KeyType;
use lucarne_settings::typed;
use serde::Deserialize;

use crate::connection_options::ConnectionOptions;
use crate::option_values::TimeSpan;
use crate::rest::Header;

/// Server and flow of the scenario.
#[derive(Clone, Debug, PartialEq, Args, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AcmeOptions {
    /// URL of the server's directory
    #[arg(long, value_name = "URL", default_value = "")]
    pub directory: String,
    /// Flow of each iteration
    #[arg(long, value_enum, default_value_t)]
    pub flow: Flow,
    /// Renewal id that no certificate has (probe, burst): the server must respond with 400 or 404
    #[arg(long, value_name = "ID", default_value = "aaaa.bbbb")]
    pub synthetic_id: String,
    /// PEM file of certificates whose renewal information is requested (renewal-info), instead of
    /// enrolling for one
    #[arg(long, value_name = "FILE")]
    pub certificates: Option<PathBuf>,
    /// Mean pause between requests (probe), and between the parts of an enrolment; each pause takes
    /// 50% to 150% of this time
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(1))]
    pub think: TimeSpan,
    /// Last step of an enrolment
    #[arg(long, value_enum, default_value_t)]
    pub until: Until,
    /// Whether each user has an account or all share one
    #[arg(long, value_enum, default_value_t)]
    pub accounts: AccountReuse,
    /// Mail address of the accounts
    #[arg(long, value_name = "ADDRESS")]
    pub contact: Option<String>,
    /// Domain of the generated names; it must resolve to the responder
    #[arg(long, value_name = "DOMAIN", default_value = "example.test")]
    pub domain: String,
    /// Names in each certificate
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub names: u32,
    /// Key of each certificate; RSA keys are generated once for each user
    #[arg(long, value_enum, default_value_t)]
    pub key: KeyAlgorithm,
    /// Challenge type that proves the names
    #[arg(long, value_enum, default_value_t)]
    pub challenge: ChallengeType,
    /// Listen address for http-01; the server connects to port 80 unless configured otherwise
    #[arg(long, value_name = "ADDRESS", default_value = HTTP01)]
    #[serde(deserialize_with = "typed::parsed")]
    pub http01_listen: SocketAddr,
    /// Listen address for tls-alpn-01; the server connects to port 443 unless configured otherwise
    #[arg(long, value_name = "ADDRESS", default_value = TLS_ALPN01)]
    #[serde(deserialize_with = "typed::parsed")]
    pub tls_alpn01_listen: SocketAddr,
    /// Interval between polls of an unfinished object, if the server states none
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::milliseconds(500))]
    pub poll: TimeSpan,
    /// Time limit of a validation or an issuance
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan::seconds(60))]
    pub patience: TimeSpan,
    /// Header of every request
    #[arg(
        long,
        visible_alias = "header",
        short = 'H',
        value_name = "NAME: VALUE"
    )]
    #[serde(deserialize_with = "crate::rest::headers")]
    pub headers: Vec<Header>,
    /// Connections to the server.
    #[command(flatten)]
    #[serde(rename = "..connection")]
    pub connection: ConnectionOptions,
}

/// Pebble's ports, which need no privileges.
const HTTP01: &str = "127.0.0.1:5002";
const TLS_ALPN01: &str = "127.0.0.1:5001";

/// Flows of an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flow {
    /// Directory, new nonce, renewal info of a synthetic id, with pauses
    #[default]
    Probe,
    /// The requests of `probe`, without pauses
    Burst,
    /// Renewal info of real certificates
    RenewalInfo,
    /// A whole enrolment
    Enrol,
}

/// Last step of an enrolment: each includes all earlier steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// Downloads and checks the certificate
    Certificate,
    /// Requests the renewal information of the certificate (RFC 9773)
    RenewalInfo,
    /// Renews the certificate, with `replaces`
    Renewal,
    /// Revokes the replaced certificate
    #[default]
    Revocation,
}

/// Sharing of accounts among users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccountReuse {
    /// An account for each user
    #[default]
    Own,
    /// A single account for all users
    Shared,
}

/// Key of a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyAlgorithm {
    /// ECDSA on P-256
    #[default]
    P256,
    /// ECDSA on P-384
    P384,
    /// RSA of 2048 bits
    Rsa2048,
}

impl KeyAlgorithm {
    pub(super) fn kind(self) -> KeyType {
        match self {
            KeyAlgorithm::P256 => KeyType::EcdsaP256,
            KeyAlgorithm::P384 => KeyType::EcdsaP384,
            KeyAlgorithm::Rsa2048 => KeyType::Rsa(2048),
        }
    }
}

/// Challenge type that proves names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
pub enum ChallengeType {
    /// A file on port 80 (RFC 8555 8.3)
    #[default]
    #[value(name = "http-01")]
    #[serde(rename = "http-01")]
    Http01,
    /// A certificate on port 443 (RFC 8737)
    #[value(name = "tls-alpn-01")]
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl ChallengeType {
    /// Returns the name of the type in ACME.
    pub(super) fn name(self) -> &'static str {
        match self {
            ChallengeType::Http01 => "http-01",
            ChallengeType::TlsAlpn01 => "tls-alpn-01",
        }
    }
}
