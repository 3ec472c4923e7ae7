use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The options of a client: how its requests are sent.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The version of HTTP to speak.
    pub version: Version,
    /// Accept any certificate: self-signed, expired, of another host.
    pub insecure: bool,
    /// PEM files with certificates to trust besides the system's.
    pub ca: Vec<PathBuf>,
    /// The most a request may take, connecting included (60 s).
    pub timeout: Duration,
    /// The most that connecting and the TLS handshake may take together (10 s).
    pub connect_timeout: Duration,
    /// Lets a connection serve more than one request (it does).
    pub keepalive: bool,
    /// Lets a new connection resume an earlier TLS session (it may not:
    /// every handshake that is measured is a full one).
    pub resume: bool,
    /// Addresses of hosts that are not to be looked up.
    pub resolve: Vec<(String, IpAddr)>,
    /// The longest body of an answer, in bytes (64 MiB).
    pub max_body: usize,
    /// A token that every request carries which has no `authorization` of its own
    /// (`Bearer`, RFC 6750).
    pub bearer_token: Option<String>,
    /// The offer of TLS handshakes, and the identity shown in them.
    pub tls: TlsOptions,
}

/// The offer of a TLS handshake. The default is whatever is safe.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Versions to offer; none stands for all.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites to offer, by IANA's names; none stands for all.
    pub suites: Vec<String>,
    /// Groups for the key exchange, by IANA's names, the preferred one first; none
    /// stands for the usual ones.
    pub groups: Vec<String>,
    /// The client's own certificate.
    pub identity: Option<Identity>,
    /// The name to ask for and to find in the certificate, if not the URL's host.
    pub server_name: Option<String>,
}

/// A client's certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A PEM file with the certificate, and those that lead to its root.
    pub certificates: PathBuf,
    /// A PEM file with the key.
    pub key: PathBuf,
}

/// A version of TLS.
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
            bearer_token: None,
            tls: TlsOptions::default(),
        }
    }
}

/// A version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1 (RFC 9112).
    #[default]
    Http1,
    /// HTTP/2 (RFC 9113): by ALPN over TLS, by prior knowledge without.
    Http2,
}

impl Version {
    /// As it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            Version::Http1 => "HTTP/1.1",
            Version::Http2 => "HTTP/2",
        }
    }

    /// As it is called in a TLS handshake (ALPN).
    pub(super) fn alpn(self) -> &'static [u8] {
        match self {
            Version::Http1 => b"http/1.1",
            Version::Http2 => b"h2",
        }
    }
}
