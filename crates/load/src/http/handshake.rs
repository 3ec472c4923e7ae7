use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, HandshakeKind, ProtocolVersion};

use super::tls::iana;

/// Result of a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// Cipher suite by IANA's name.
    pub suite: String,
    /// Group of the key exchange by IANA's name; `None` without a key exchange.
    pub group: Option<String>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Certificates of the server, the leaf first. A resumed session has the certificates of its
    /// first handshake.
    pub certificates: Vec<CertificateDer<'static>>,
    /// Stapled OCSP response of a full handshake, empty if the server stapled none; `None` for a
    /// resumed session.
    pub staple: Option<Vec<u8>>,
}

impl Handshake {
    pub(super) fn of(connection: &ClientConnection, staple: Option<Vec<u8>>) -> Self {
        let suite = connection.negotiated_cipher_suite();
        let group = connection.negotiated_key_exchange_group();
        let certificates = connection.peer_certificates().unwrap_or_default();
        Self {
            version: version(connection),
            suite: iana(suite.and_then(|suite| suite.suite().as_str())),
            group: group.map(|group| iana(group.name().as_str())),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            certificates: certificates.to_vec(),
            staple,
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
