//! Public key of a certificate, including certificates that rustls cannot parse: certificates of
//! X.509 version 1, or with malformed extensions.

use lucarne_x509::der::{DerError, Reader, tag};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::alg_id;

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
