//! Verifier of server certificates, which all clients in this workspace use.
//!
//! The public key of a certificate is parsed here, too, because rustls cannot parse some
//! certificates: certificates of X.509 version 1, or with malformed extensions.

use std::sync::Arc;

use lucarne_x509::der::{DerError, Reader, tag};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, aws_lc_rs::default_provider, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime, alg_id};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, SignatureScheme,
};
use webpki::RawPublicKeyEntity;

use super::{Trust, weak_rsa};

/// Verifies the certificates of servers, and the signatures of their handshakes.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// Trusted certificates; `None` accepts any certificate.
    trust: Option<Trust>,
    algorithms: WebPkiSupportedAlgorithms,
    staple: Option<fn(&[u8])>,
}

/// Certificate errors for which rustls has no variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyError {
    #[error("the certificate has an RSA key of {0} bits; expected at least 2048 bits")]
    Weak(usize),
    #[error("the certificate has a key of a kind that cannot be verified")]
    Unknown,
    #[error("the server did not prove that it has the key of its certificate")]
    NotProven,
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tls {
    V1_2,
    V1_3,
}

impl Verifier {
    /// Accepts the certificates that `trust` trusts, for the names in them.
    pub fn trusting(trust: Trust) -> Self {
        Self::new(Some(trust))
    }

    /// Accepts any certificate, even one that cannot be parsed. The server must prove that it has
    /// the key, unless the kind of key is not supported.
    pub fn accepting_any() -> Self {
        Self::new(None)
    }

    fn new(trust: Option<Trust>) -> Self {
        Verifier {
            trust,
            algorithms: default_provider().signature_verification_algorithms,
            staple: None,
        }
    }

    /// Passes the stapled OCSP response of each handshake to `report`, empty if there is none.
    /// rustls passes the response only to the verifier.
    #[must_use]
    pub fn reporting_staples(mut self, report: fn(&[u8])) -> Self {
        self.staple = Some(report);
        self
    }

    fn verify_signature(
        &self,
        tls: Tls,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let standard = match tls {
            Tls::V1_2 => verify_tls12_signature(message, certificate, signed, &self.algorithms),
            Tls::V1_3 => verify_tls13_signature(message, certificate, signed, &self.algorithms),
        };
        if standard.is_ok() {
            return standard;
        }
        match self.verify_odd(tls, message, certificate, signed) {
            Ok(()) => Ok(HandshakeSignatureValid::assertion()),
            Err(KeyError::Unknown) if self.trust.is_none() => {
                Ok(HandshakeSignatureValid::assertion())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Verifies a signature by a key that rustls does not accept: a short RSA key, or the key of a
    /// certificate that rustls cannot parse.
    fn verify_odd(
        &self,
        tls: Tls,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<(), KeyError> {
        let scheme = signed.scheme;
        if tls == Tls::V1_3 && is_pkcs1(scheme) {
            return Err(KeyError::NotProven);
        }
        let spki = spki(certificate).map_err(|_| KeyError::Unknown)?;
        let supported = is_supported(spki, &self.algorithms);
        let spki = SubjectPublicKeyInfoDer::from(spki);
        let key = RawPublicKeyEntity::try_from(&spki).map_err(|_| KeyError::Unknown)?;
        let mut mapping = self.algorithms.mapping.iter();
        let (_, strong) = mapping
            .find(|(known, _)| *known == scheme)
            .ok_or(KeyError::NotProven)?;
        // In TLS 1.3, a scheme determines the curve.
        let strong = match tls {
            Tls::V1_3 => &strong[..strong.len().min(1)],
            Tls::V1_2 => strong,
        };
        // The server chooses the scheme. With a scheme for other keys, a supported key proves
        // nothing: otherwise, a server with the certificate of another server would be accepted.
        let mut outcome = Err(if supported {
            KeyError::NotProven
        } else {
            KeyError::Unknown
        });
        for algorithm in strong.iter().copied().chain(weak_rsa::algorithm(scheme)) {
            match key.verify_signature(algorithm, message, signed.signature()) {
                Ok(()) => return Ok(()),
                Err(webpki::Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_)) => {}
                Err(_) => outcome = Err(KeyError::NotProven),
            }
        }
        outcome
    }
}

fn is_pkcs1(scheme: SignatureScheme) -> bool {
    use SignatureScheme as S;
    matches!(
        scheme,
        S::RSA_PKCS1_SHA256 | S::RSA_PKCS1_SHA384 | S::RSA_PKCS1_SHA512
    )
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        staple: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(report) = self.staple {
            report(staple);
        }
        if let Some(trust) = &self.trust {
            trust.verify(leaf, others, now)?;
            verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
            trust.check_key(leaf)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(Tls::V1_2, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(Tls::V1_3, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Returns TLS settings for servers with trusted certificates.
pub fn trusting(trust: Trust) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap_or_else(|_| unreachable!("the provider has ciphers for TLS 1.2 and 1.3"))
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::trusting(trust)))
        .with_no_client_auth()
}

/// Returns the SubjectPublicKeyInfo of a certificate in DER (RFC 5280, section 4.1).
pub(super) fn spki(certificate: &[u8]) -> Result<&[u8], DerError> {
    let mut certificate = Reader::new(certificate).any("Certificate")?.reader();
    let mut tbs = certificate.any("tbsCertificate")?.reader();
    tbs.optional(tag::context(0), "version")?;
    for field in ["serialNumber", "signature", "issuer", "validity", "subject"] {
        tbs.any(field)?;
    }
    Ok(tbs.any("subjectPublicKeyInfo")?.raw)
}

/// Returns the content of a SubjectPublicKeyInfo's algorithm, as rustls compares it.
fn algorithm(spki: &[u8]) -> Result<&[u8], DerError> {
    let mut spki = Reader::new(spki).any("subjectPublicKeyInfo")?.reader();
    Ok(spki.any("algorithm")?.value)
}

/// Returns whether signatures of this key can be verified.
pub(super) fn is_supported(spki: &[u8], known: &WebPkiSupportedAlgorithms) -> bool {
    let mut all = known.all.iter();
    algorithm(spki).is_ok_and(|key| all.any(|known| known.public_key_alg_id().as_ref() == key))
}

pub(super) struct RsaKey<'a> {
    /// Modulus, big-endian without leading zeros.
    pub(super) modulus: &'a [u8],
    /// Exponent, big-endian without leading zeros.
    pub(super) exponent: &'a [u8],
}

impl<'a> RsaKey<'a> {
    /// Parses an RSAPublicKey (RFC 8017, appendix A.1.1).
    pub(super) fn read(key: &'a [u8]) -> Result<Self, DerError> {
        let mut key = Reader::new(key).any("RSAPublicKey")?.reader();
        let modulus = key.expect(tag::INTEGER, "modulus")?.value;
        let exponent = key.expect(tag::INTEGER, "publicExponent")?.value;
        Ok(RsaKey {
            modulus: without_zeros(modulus),
            exponent: without_zeros(exponent),
        })
    }

    /// Parses the key of a SubjectPublicKeyInfo; `None` for other kinds of keys.
    pub(super) fn of_spki(spki: &'a [u8]) -> Result<Option<Self>, DerError> {
        let mut spki = Reader::new(spki).any("subjectPublicKeyInfo")?.reader();
        if spki.any("algorithm")?.value != alg_id::RSA_ENCRYPTION.as_ref() {
            return Ok(None);
        }
        let bits = spki.expect(tag::BIT_STRING, "subjectPublicKey")?.value;
        // The first byte is the number of unused bits.
        Self::read(bits.get(1..).unwrap_or_default()).map(Some)
    }

    /// Returns the number of bits of the modulus.
    pub(super) fn bits(&self) -> usize {
        let zeros = self.modulus.first().map_or(0, |byte| byte.leading_zeros());
        self.modulus.len() * 8 - zeros as usize
    }
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}
