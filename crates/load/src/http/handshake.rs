use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, HandshakeKind, ProtocolVersion};

use super::tls::iana;

/// The result of a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite, by IANA's name.
    pub suite: String,
    /// The group of the key exchange, by IANA's name; `None` if there was none.
    pub group: Option<String>,
    /// True if an earlier session was resumed.
    pub resumed: bool,
    /// The certificates that the server showed, its own first. That of the session
    /// if one was resumed.
    pub certificates: Vec<CertificateDer<'static>>,
}

impl Handshake {
    pub(super) fn of(connection: &ClientConnection) -> Self {
        let suite = connection.negotiated_cipher_suite();
        let group = connection.negotiated_key_exchange_group();
        let certificates = connection.peer_certificates().unwrap_or_default();
        Self {
            version: version(connection),
            suite: iana(suite.and_then(|suite| suite.suite().as_str())),
            group: group.map(|group| iana(group.name().as_str())),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            certificates: certificates.to_vec(),
        }
    }
}

fn version(connection: &ClientConnection) -> &'static str {
    match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        _ => "TLS",
    }
}
