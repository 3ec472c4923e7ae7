//! Signature algorithms of certificates.

use std::fmt;

use lucarne_x509::der::{DerError, Reader, tag};
use lucarne_x509::oid::{self, content};

use crate::certificate::Certificate;
use crate::policy::Policy;
use crate::rejection::{Code, Rejection};

/// The digests of accepted signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HashAlgorithm {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// The signature algorithm that a certificate names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignatureAlgorithm {
    RsaPkcs1(HashAlgorithm),
    RsaPss(HashAlgorithm),
    Ecdsa(HashAlgorithm),
    Ed25519,
}

impl fmt::Display for SignatureAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, hash) = match self {
            Self::RsaPkcs1(hash) => ("RSA PKCS #1", hash),
            Self::RsaPss(hash) => ("RSA-PSS", hash),
            Self::Ecdsa(hash) => ("ECDSA", hash),
            Self::Ed25519 => return f.write_str("Ed25519"),
        };
        let hash = match hash {
            HashAlgorithm::Sha1 => "SHA-1",
            HashAlgorithm::Sha256 => "SHA-256",
            HashAlgorithm::Sha384 => "SHA-384",
            HashAlgorithm::Sha512 => "SHA-512",
        };
        write!(f, "{scheme} with {hash}")
    }
}

impl SignatureAlgorithm {
    /// Returns the algorithm of the certificate at `index` of a chain if the log accepts it.
    ///
    /// # Errors
    /// [`Code::AlgorithmMismatch`], [`Code::WeakAlgorithm`], [`Code::Sha1Refused`],
    /// [`Code::UnsupportedAlgorithm`], [`Code::InvalidCertificate`].
    pub(crate) fn of(
        index: usize,
        certificate: &Certificate<'_>,
        policy: &Policy,
    ) -> Result<Self, Rejection> {
        let reject = |code, detail: String| Rejection::of(index, code, detail);
        let malformed = |error: DerError| reject(Code::InvalidCertificate, error.to_string());
        let outer = AlgorithmIdentifier::read(certificate.algorithm()).map_err(malformed)?;
        let inner = AlgorithmIdentifier::read(certificate.tbs_algorithm()).map_err(malformed)?;
        if outer != inner {
            return Err(reject(
                Code::AlgorithmMismatch,
                format!(
                    "{inner} in the signed part, {outer} next to the signature; both must be \
                     equal, including their parameters"
                ),
            ));
        }
        let algorithm = outer.algorithm().map_err(|refused| match refused {
            Refused::Weak(name) => reject(
                Code::WeakAlgorithm,
                format!(
                    "signed with {name}; expected SHA-2 or, unless configured otherwise, SHA-1"
                ),
            ),
            Refused::Unknown => reject(
                Code::UnsupportedAlgorithm,
                format!(
                    "signature algorithm {} is unknown or has unknown parameters; {ACCEPTED}",
                    oid::display(outer.oid)
                ),
            ),
        })?;
        if algorithm.uses_sha1() && !policy.accept_sha1 {
            let detail = "signed with SHA-1, which this log is configured to refuse";
            return Err(reject(Code::Sha1Refused, detail.to_owned()));
        }
        Ok(algorithm)
    }

    /// Parses an AlgorithmIdentifier (DER). Returns `None` for algorithms that prove nothing: MD5,
    /// SHA-1 and unknown algorithms.
    pub(crate) fn read(identifier: &[u8]) -> Option<Self> {
        let algorithm = AlgorithmIdentifier::read(identifier)
            .ok()?
            .algorithm()
            .ok()?;
        (!algorithm.uses_sha1()).then_some(algorithm)
    }

    fn uses_sha1(self) -> bool {
        matches!(
            self,
            Self::RsaPkcs1(HashAlgorithm::Sha1)
                | Self::RsaPss(HashAlgorithm::Sha1)
                | Self::Ecdsa(HashAlgorithm::Sha1)
        )
    }
}

/// The accepted signature algorithms, for error messages.
pub(crate) const ACCEPTED: &str =
    "expected RSA PKCS#1 or PSS, ECDSA on P-256, P-384 or P-521, or Ed25519";

enum Refused {
    Weak(&'static str),
    Unknown,
}

/// An AlgorithmIdentifier. Two identifiers are equal if they have the same meaning, regardless of
/// their encoding.
#[derive(PartialEq, Eq)]
struct AlgorithmIdentifier<'a> {
    oid: &'a [u8],
    parameters: Parameters<'a>,
}

#[derive(PartialEq, Eq)]
enum Parameters<'a> {
    Absent,
    Null,
    /// The encoded parameters.
    Other(&'a [u8]),
}

impl<'a> AlgorithmIdentifier<'a> {
    fn read(raw: &'a [u8]) -> Result<Self, DerError> {
        let mut fields = Reader::new(raw)
            .expect(tag::SEQUENCE, "AlgorithmIdentifier")?
            .reader();
        let oid = fields.expect(tag::OID, "algorithm")?.value;
        let parameters = if fields.is_empty() {
            Parameters::Absent
        } else {
            match fields.any("parameters")? {
                null if null.tag == tag::NULL => Parameters::Null,
                other => Parameters::Other(other.raw),
            }
        };
        Ok(Self { oid, parameters })
    }

    fn algorithm(&self) -> Result<SignatureAlgorithm, Refused> {
        use SignatureAlgorithm::{Ecdsa, Ed25519, RsaPkcs1, RsaPss};
        Ok(match self.oid {
            content::SHA1_WITH_RSA | content::OIW_SHA1_WITH_RSA => RsaPkcs1(HashAlgorithm::Sha1),
            content::SHA256_WITH_RSA => RsaPkcs1(HashAlgorithm::Sha256),
            content::SHA384_WITH_RSA => RsaPkcs1(HashAlgorithm::Sha384),
            content::SHA512_WITH_RSA => RsaPkcs1(HashAlgorithm::Sha512),
            content::RSA_PSS => RsaPss(self.pss_hash().ok_or(Refused::Unknown)?),
            content::ECDSA_WITH_SHA1 => Ecdsa(HashAlgorithm::Sha1),
            content::ECDSA_WITH_SHA256 => Ecdsa(HashAlgorithm::Sha256),
            content::ECDSA_WITH_SHA384 => Ecdsa(HashAlgorithm::Sha384),
            content::ECDSA_WITH_SHA512 => Ecdsa(HashAlgorithm::Sha512),
            content::ED25519 => Ed25519,
            content::MD2_WITH_RSA => return Err(Refused::Weak("MD2")),
            content::MD4_WITH_RSA => return Err(Refused::Weak("MD4")),
            content::MD5_WITH_RSA | content::OIW_MD5_WITH_RSA => return Err(Refused::Weak("MD5")),
            _ => return Err(Refused::Unknown),
        })
    }

    /// Returns the digest of RSASSA-PSS-params (RFC 4055, section 3.1). The other parameters need
    /// not be read: signatures are verified with a salt of the length of the digest and with MGF1
    /// of the same digest, as RFC 8017 recommends and all signers do.
    fn pss_hash(&self) -> Option<HashAlgorithm> {
        let Parameters::Other(parameters) = self.parameters else {
            return None;
        };
        let mut fields = Reader::new(parameters).any("parameters").ok()?.reader();
        let Ok(Some(hash)) = fields.optional(tag::context(0), "hashAlgorithm") else {
            return Some(HashAlgorithm::Sha1);
        };
        match AlgorithmIdentifier::read(hash.value).ok()?.oid {
            content::SHA1 => Some(HashAlgorithm::Sha1),
            content::SHA256 => Some(HashAlgorithm::Sha256),
            content::SHA384 => Some(HashAlgorithm::Sha384),
            content::SHA512 => Some(HashAlgorithm::Sha512),
            _ => None,
        }
    }
}

/// Formats the identifier for messages, such as `1.2.840.113549.1.1.11 with NULL`.
impl fmt::Display for AlgorithmIdentifier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = match self.parameters {
            Parameters::Absent => "without parameters",
            Parameters::Null => "with NULL",
            Parameters::Other(_) => "with parameters",
        };
        write!(f, "{} {parameters}", oid::display(self.oid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifier(oid: &[u8], parameters: &[u8]) -> Vec<u8> {
        let mut der = vec![tag::SEQUENCE, (2 + oid.len() + parameters.len()) as u8];
        der.extend_from_slice(&[tag::OID, oid.len() as u8]);
        der.extend_from_slice(&[oid, parameters].concat());
        der
    }

    #[test]
    fn identifiers_are_equal_if_they_say_the_same() {
        let identifier = |parameters| identifier(content::SHA256_WITH_RSA, parameters);
        let (absent, null, other) = (identifier(&[]), identifier(&[5, 0]), identifier(&[2, 1, 0]));
        let equal = |a: &[u8], b: &[u8]| {
            AlgorithmIdentifier::read(a).unwrap() == AlgorithmIdentifier::read(b).unwrap()
        };
        assert!(equal(&null, &identifier(&[5, 0x81, 1, 7])));
        assert!(equal(&other, &other));
        assert!(!equal(&absent, &null));
        assert!(!equal(&absent, &other));
        assert!(!equal(&null, &other));
        assert!(!equal(
            &absent,
            &self::identifier(content::SHA384_WITH_RSA, &[])
        ));
    }

    #[test]
    fn identifiers_are_those_of_the_standards() {
        for (oid, dotted) in [
            (content::SHA512_WITH_RSA, "1.2.840.113549.1.1.13"),
            (content::ECDSA_WITH_SHA1, "1.2.840.10045.4.1"),
            (content::ECDSA_WITH_SHA512, "1.2.840.10045.4.3.4"),
            (content::OIW_SHA1_WITH_RSA, "1.3.14.3.2.29"),
            (content::SHA512, "2.16.840.1.101.3.4.2.3"),
            (content::ED25519, "1.3.101.112"),
        ] {
            assert_eq!(oid::display(oid), dotted);
        }
    }
}
