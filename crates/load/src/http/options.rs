use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::BodyBudget;

/// Options of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// HTTP version.
    pub version: Version,
    /// Accept any certificate: self-signed, expired, for another host.
    pub insecure: bool,
    /// PEM files of certificates to trust in addition to the system's.
    pub ca: Vec<PathBuf>,
    /// Time limit of a request including connecting; 60 s by default.
    pub timeout: Duration,
    /// Time limit of connecting and the TLS handshake together; 10 s by default.
    pub connect_timeout: Duration,
    /// Whether a connection serves more than one request; on by default.
    pub keepalive: bool,
    /// Whether a new connection resumes an earlier TLS session. Off by default, so that every
    /// measured handshake is a full handshake.
    pub resume: bool,
    /// Addresses of hosts that are not resolved by DNS.
    pub resolve: Vec<(String, IpAddr)>,
    /// Limit of each body that stays in memory, in bytes; 64 MiB by default.
    pub max_body: usize,
    /// Limit of all bodies in memory together, for all clients with these options.
    pub body_budget: Option<Arc<BodyBudget>>,
    /// Bearer token (RFC 6750) of requests without their own `authorization`.
    pub bearer_token: Option<String>,
    /// TLS settings of the client.
    pub tls: TlsOptions,
}

/// TLS settings. The default offers all safe settings.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Versions to offer; empty means all.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites to offer by IANA's names; empty means all.
    pub suites: Vec<String>,
    /// Groups for the key exchange by IANA's names, the preferred group first; empty means the
    /// default groups.
    pub groups: Vec<String>,
    /// Client certificate.
    pub identity: Option<Identity>,
    /// Server name in TLS, which the certificate must contain, if not the URL's host.
    pub server_name: Option<String>,
}

/// A client certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PEM file of the certificate and its chain.
    pub certificates: PathBuf,
    /// PEM file of the key.
    pub key: PathBuf,
}

/// A TLS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    V1_2,
    /// TLS 1.3 (RFC 8446).
    V1_3,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            version: Version::default(),
            insecure: false,
            ca: Vec::new(),
            timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(10),
            keepalive: true,
            resume: false,
            resolve: Vec::new(),
            max_body: 64 << 20,
            body_budget: None,
            bearer_token: None,
            tls: TlsOptions::default(),
        }
    }
}

/// Advice for the user of a server that speaks only HTTP/1.1.
pub(super) const WITHOUT_HTTP2: &str =
    "for a server that speaks only HTTP/1.1, leave out `--http 2` (`http: 2` in a plan)";

/// An HTTP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1 (RFC 9112).
    #[default]
    Http1,
    /// HTTP/2 (RFC 9113): by ALPN over TLS, by prior knowledge without TLS.
    Http2,
}

impl Version {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Version::Http1 => "HTTP/1.1",
            Version::Http2 => "HTTP/2",
        }
    }

    /// Returns the name in ALPN.
    pub(super) fn alpn(self) -> &'static [u8] {
        match self {
            Version::Http1 => b"http/1.1",
            Version::Http2 => b"h2",
        }
    }
}
