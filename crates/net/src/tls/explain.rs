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
        Error::InvalidMessage(
            InvalidMessage::HandshakePayloadTooLarge | InvalidMessage::CertificatePayloadTooLarge,
        ) => "the certificates of the server have more than 64 KiB together, which is the limit"
            .to_owned(),
        Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion) => OLD.to_owned(),
        Error::InvalidMessage(_) => NO_TLS.to_owned(),
        Error::NoCertificatesPresented => "the server showed no certificate".to_owned(),
        other => {
            of_peer(other, "server").unwrap_or_else(|| format!("the TLS handshake failed: {other}"))
        }
    }
}

/// Describes why a TLS handshake with a client failed, as a clause without a full stop.
pub fn explain_client(error: &Error) -> String {
    of_peer(error, "client").unwrap_or_else(|| error.to_string())
}

/// Describes an error of the TLS protocol that `peer` caused; `None` for other errors.
fn of_peer(error: &Error, peer: &str) -> Option<String> {
    Some(match error {
        Error::PeerIncompatible(why) => format!(
            "the {peer} supports none of the required TLS settings ({})",
            words(why, ' ')
        ),
        Error::PeerMisbehaved(why) => {
            format!("the {peer} violates the TLS protocol ({})", words(why, ' '))
        }
        Error::InvalidMessage(why) => {
            format!(
                "the {peer} sent an invalid TLS message ({})",
                words(why, ' ')
            )
        }
        Error::AlertReceived(alert) => {
            let name = alert_name(*alert);
            format!("the {peer} ended the TLS handshake with the alert {name}")
        }
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            format!("the {peer} sent a TLS message that is not allowed at this point")
        }
        Error::PeerSentOversizedRecord => {
            format!("the {peer} sent a TLS record that is too long")
        }
        Error::DecryptError => format!("a TLS record of the {peer} cannot be decrypted"),
        Error::NoApplicationProtocol => {
            format!("the {peer} supports none of the offered protocols (ALPN)")
        }
        _ => return None,
    })
}

/// Returns the name of an alert in the registry of TLS: `certificate_required`.
pub fn alert_name(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnrecognisedName => "unrecognized_name".to_owned(),
        AlertDescription::Unknown(number) => number.to_string(),
        named => words(&named, '_'),
    }
}

/// Splits the name of a variant into words: `NoKxGroupsInCommon` becomes `no kx groups in common`.
/// Fields of the variant are left out.
fn words(variant: &impl std::fmt::Debug, separator: char) -> String {
    let name = format!("{variant:?}");
    let is_end = |letter: char| !letter.is_ascii_alphanumeric();
    let name = name.split(is_end).next().unwrap_or_default();
    let mut words = String::new();
    let mut letters = name.chars().peekable();
    let mut before: Option<char> = None;
    while let Some(letter) = letters.next() {
        let next_is_small = letters.peek().is_some_and(char::is_ascii_lowercase);
        let begins = letter.is_ascii_uppercase()
            && before.is_some_and(|before| !before.is_ascii_uppercase() || next_is_small);
        if begins {
            words.push(separator);
        }
        words.push(letter.to_ascii_lowercase());
        before = Some(letter);
    }
    words
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
        UnsupportedSignatureAlgorithmForPublicKeyContext,
    };
    let text = match error {
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
        UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the certificate is signed by an algorithm that does not fit the key of its CA"
        }
        Other(other) => match (other.0.downcast_ref(), other.0.downcast_ref::<KeyError>()) {
            (Some(error), _) => return webpki(error),
            (_, Some(error)) => return error.to_string(),
            _ => return other.to_string(),
        },
        other => return format!("the certificate is not valid: {}", words(other, ' ')),
    };
    text.to_owned()
}

fn webpki(error: &webpki::Error) -> String {
    use webpki::Error as E;
    let text = match error {
        E::CaUsedAsEndEntity => {
            "the certificate is that of a CA (CA:TRUE), and is not itself trusted"
        }
        E::EndEntityUsedAsCa => {
            "the certificate was issued by a certificate that is not that of a CA (CA:FALSE)"
        }
        E::UnsupportedCertVersion => "the certificate has X.509 version 1, which has no host names",
        E::InvalidSerialNumber => "the certificate has an invalid serial number",
        E::BadDer
        | E::TrailingData(_)
        | E::ExtensionValueInvalid
        | E::MalformedExtensions
        | E::MalformedNameConstraint
        | E::InvalidNetworkMaskConstraint => "the certificate cannot be read",
        E::NameConstraintViolation => "the CA may not issue certificates for this name",
        E::PathLenConstraintViolated => "the chain of certificates is longer than its CA allows",
        E::MaximumPathDepthExceeded
        | E::MaximumPathBuildCallsExceeded
        | E::MaximumSignatureChecksExceeded
        | E::MaximumNameConstraintComparisonsExceeded => {
            "the chain of certificates takes too long to verify"
        }
        other => return format!("the certificate is not valid: {}", words(other, ' ')),
    };
    text.to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{OtherError, PeerMisbehaved};
    use std::sync::Arc;

    #[test]
    fn names_of_the_library_become_words() {
        let other = |error: webpki::Error| {
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
        };
        for (error, expected) in [
            (
                other(webpki::Error::EndEntityUsedAsCa),
                "the certificate was issued by a certificate that is not that of a CA (CA:FALSE)",
            ),
            (
                other(webpki::Error::MaximumPathDepthExceeded),
                "the chain of certificates takes too long to verify",
            ),
            (
                other(webpki::Error::UnsupportedNameType),
                "the certificate is not valid: unsupported name type",
            ),
            (
                CertificateError::InvalidOcspResponse.into(),
                "the certificate is not valid: invalid ocsp response",
            ),
            (
                PeerIncompatible::NoKxGroupsInCommon.into(),
                "the server supports none of the required TLS settings (no kx groups in common)",
            ),
            (
                PeerMisbehaved::SelectedUnofferedCipherSuite.into(),
                "the server violates the TLS protocol (selected unoffered cipher suite)",
            ),
            (
                Error::AlertReceived(AlertDescription::UnknownCA),
                "the server ended the TLS handshake with the alert unknown_ca",
            ),
        ] {
            assert_eq!(explain(&error), expected);
        }
        assert_eq!(
            explain_client(&PeerIncompatible::NoCipherSuitesInCommon.into()),
            "the client supports none of the required TLS settings (no cipher suites in common)"
        );
        assert_eq!(
            alert_name(AlertDescription::CertificateRequired),
            "certificate_required"
        );
        assert_eq!(
            alert_name(AlertDescription::UnknownPSKIdentity),
            "unknown_psk_identity"
        );
        assert_eq!(alert_name(AlertDescription::Unknown(200)), "200");
    }
}
