//! Descriptions of failed TLS handshakes with servers.

use std::error::Error as StdError;
use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

use super::verifier::KeyError;

/// Returns the error of rustls in `error` or in its causes, if there is one.
pub fn tls_error<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // The source of an I/O error omits the error that it wraps.
    let carried = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    match carried {
        Some(carried) => tls_error(carried),
        None => error.source().and_then(tls_error),
    }
}

/// Describes why a TLS handshake with a server failed, as a clause without a full stop:
/// `the certificate has expired`.
pub fn explain(error: &Error) -> String {
    use PeerIncompatible::{
        ServerDoesNotSupportTls12Or13, ServerTlsVersionIsDisabledByOurConfig, Tls12NotOffered,
        Tls12NotOfferedOrEnabled,
    };
    const OLD: &str = "the server speaks neither TLS 1.2 nor TLS 1.3";
    const NO_TLS: &str = "the server does not speak TLS on this port";
    match error {
        Error::InvalidCertificate(wrong) => certificate(wrong),
        Error::AlertReceived(AlertDescription::ProtocolVersion)
        | Error::PeerIncompatible(
            ServerDoesNotSupportTls12Or13
            | ServerTlsVersionIsDisabledByOurConfig
            | Tls12NotOffered
            | Tls12NotOfferedOrEnabled,
        ) => OLD.to_owned(),
        Error::PeerIncompatible(PeerIncompatible::ExtendedMasterSecretExtensionRequired) => {
            "the server does not bind the session to the handshake (extended master secret, \
             RFC 7627)"
                .to_owned()
        }
        Error::AlertReceived(alert) => {
            format!("the server ended the TLS handshake with the alert {alert:?}")
        }
        Error::InvalidMessage(
            InvalidMessage::HandshakePayloadTooLarge | InvalidMessage::CertificatePayloadTooLarge,
        ) => "the certificates of the server have more than 64 KiB together, which is the limit"
            .to_owned(),
        Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion) => OLD.to_owned(),
        Error::InvalidMessage(_) => NO_TLS.to_owned(),
        Error::NoCertificatesPresented => "the server showed no certificate".to_owned(),
        other => format!("the TLS handshake failed: {other}"),
    }
}

/// Returns whether a server showed the certificate of a CA (`CA:TRUE`), and was refused for this
/// reason.
pub fn shows_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else {
        return false;
    };
    matches!(
        other.0.downcast_ref(),
        Some(webpki::Error::CaUsedAsEndEntity)
    )
}

fn certificate(error: &CertificateError) -> String {
    use CertificateError::{
        BadEncoding, BadSignature, Expired, ExpiredContext, InvalidPurpose, InvalidPurposeContext,
        NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext, Other, Revoked,
        UnhandledCriticalExtension, UnknownIssuer, UnsupportedSignatureAlgorithmContext,
    };
    let words = match error {
        Expired | ExpiredContext { .. } => "the certificate has expired",
        NotValidYet | NotValidYetContext { .. } => {
            "the certificate is not valid yet: compare the clocks of this machine and of the server"
        }
        NotValidForName => "the certificate is for other names",
        NotValidForNameContext {
            expected,
            presented,
        } => {
            let (expected, presented) = (expected.to_str(), names(presented));
            return format!("the certificate is for other names than {expected}: {presented}");
        }
        UnknownIssuer => {
            "the certificate was issued by a CA that is not trusted, or intermediate certificates \
             are missing"
        }
        Revoked => "the certificate has been revoked",
        BadSignature => "the certificate was not signed by the CA that it names",
        BadEncoding => "the certificate cannot be read",
        InvalidPurpose | InvalidPurposeContext { .. } => "the certificate is not meant for servers",
        UnhandledCriticalExtension => {
            "the certificate has a critical extension that is not supported"
        }
        UnsupportedSignatureAlgorithmContext { .. } => {
            "the certificate is signed by an algorithm that is not trusted, such as SHA-1"
        }
        Other(other) => match (other.0.downcast_ref(), other.0.downcast_ref::<KeyError>()) {
            (Some(error), _) => return webpki(error),
            (_, Some(error)) => return error.to_string(),
            _ => return other.to_string(),
        },
        other => return format!("the certificate is not valid: {other}"),
    };
    words.to_owned()
}

fn webpki(error: &webpki::Error) -> String {
    use webpki::Error as E;
    let words = match error {
        E::CaUsedAsEndEntity => {
            "the certificate is that of a CA (CA:TRUE), and is not itself trusted"
        }
        E::UnsupportedCertVersion => "the certificate has X.509 version 1, which has no host names",
        E::InvalidSerialNumber => "the certificate has an invalid serial number",
        E::BadDer | E::TrailingData(_) | E::ExtensionValueInvalid | E::MalformedExtensions => {
            "the certificate cannot be read"
        }
        E::NameConstraintViolation => "the CA may not issue certificates for this name",
        E::PathLenConstraintViolated => "the chain of certificates is longer than its CA allows",
        other => return format!("the certificate is not valid: {other:?}"),
    };
    words.to_owned()
}

/// Formats the first names of a certificate from the format of rustls: `DnsName("a.example")`.
fn names(presented: &[String]) -> String {
    const SHOWN: usize = 8;
    if presented.is_empty() {
        return "it has no names".to_owned();
    }
    let bare = |name: &String| {
        let name = name.trim_start_matches("DnsName(\"");
        name.trim_end_matches("\")").to_owned()
    };
    let shown: Vec<String> = presented.iter().take(SHOWN).map(bare).collect();
    match presented.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{} and {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}
