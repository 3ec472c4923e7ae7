//! Verification of the signatures of certificates.

use std::fmt;
use std::sync::OnceLock;

use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::signature::{self as aws, ParsedPublicKey, VerificationAlgorithm};
use lucarne_x509::der::{DerError, Reader, tag};
use lucarne_x509::oid::content;

use crate::algorithm::{ACCEPTED, HashAlgorithm, SignatureAlgorithm};
use crate::certificate::Certificate;
use crate::known::{KeyName, Kind, KnownSignature};
use crate::name::names_match;
use crate::rejection::Code;
use crate::verification::{KeyInUse, Verification};

/// The public key of an issuer. aws-lc-rs parses the key once for each algorithm; most keys sign
/// with only one algorithm.
#[derive(Debug)]
pub(crate) struct IssuerKey {
    kind: KeyKind,
    /// RSAPublicKey, EC point or Ed25519 key: the content of the BIT STRING in the
    /// SubjectPublicKeyInfo.
    bits: Box<[u8]>,
    parsed: [OnceLock<Option<Box<ParsedPublicKey>>>; SLOTS],
    /// Name of the key, if our own arithmetic supports this kind of key.
    name: Option<KeyName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyKind {
    Rsa { modulus_bits: usize },
    P256,
    P384,
    P521,
    Ed25519,
    Other,
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rsa { modulus_bits } => return write!(f, "RSA-{modulus_bits}"),
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
            Self::Ed25519 => "Ed25519",
            Self::Other => "unknown",
        })
    }
}

/// The reasons why a signature is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VerifyError {
    UnsupportedKey(String),
    UnsupportedAlgorithm(String),
    Invalid,
}

impl VerifyError {
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::UnsupportedKey(_) => Code::UnsupportedKey,
            Self::UnsupportedAlgorithm(_) => Code::UnsupportedAlgorithm,
            Self::Invalid => Code::InvalidSignature,
        }
    }

    pub(crate) fn detail(&self, issuer: &str) -> String {
        match self {
            Self::UnsupportedKey(detail) | Self::UnsupportedAlgorithm(detail) => {
                format!("{detail} ({issuer}); {ACCEPTED}")
            }
            Self::Invalid => format!("the signature does not verify with the key of {issuer}"),
        }
    }
}

impl IssuerKey {
    /// Reads the key in the SubjectPublicKeyInfo of `certificate`. An unusable key returns an error
    /// at its first use.
    pub(crate) fn new(certificate: &Certificate<'_>) -> Self {
        let (kind, bits) = read_spki(certificate).unwrap_or((KeyKind::Other, &[]));
        Self {
            kind,
            bits: bits.into(),
            parsed: Default::default(),
            name: kind.known().map(|kind| KeyName::new(kind, bits)),
        }
    }

    /// Verifies the signature of `certificate` with the `algorithm` that the certificate names.
    ///
    /// The issuer must be a root, or its own certificate must have been verified: see
    /// [`Verification::verify`].
    pub(crate) fn verify(
        &self,
        certificate: &Certificate<'_>,
        algorithm: SignatureAlgorithm,
        verification: &Verification,
    ) -> Result<(), VerifyError> {
        let (tbs, signature) = (certificate.tbs(), certificate.signature());
        self.verify_by(tbs, signature, algorithm, Some(verification))
    }

    /// Verifies a signature over `message` with aws-lc-rs alone, for any issuer.
    pub(crate) fn verify_message(
        &self,
        message: &[u8],
        signature: &[u8],
        algorithm: SignatureAlgorithm,
    ) -> Result<(), VerifyError> {
        self.verify_by(message, signature, algorithm, None)
    }

    fn verify_by(
        &self,
        message: &[u8],
        signature: &[u8],
        algorithm: SignatureAlgorithm,
        verification: Option<&Verification>,
    ) -> Result<(), VerifyError> {
        let scheme = self.scheme(algorithm)?;
        let key = self.parsed(&scheme)?;
        let is_good = match scheme.message {
            Message::Whole => key.verify_sig(message, signature).is_ok(),
            Message::Digest(hash) => {
                let digest = digest::digest(hash, message);
                let complete = || key.verify_digest_sig(&digest, signature).is_ok();
                match (self.in_use(), verification) {
                    (Some(key), Some(verification)) => {
                        verification.verify(&key, &digest, signature, complete)
                    }
                    _ => complete(),
                }
            }
            Message::PaddedSha1 => padded_sha1(message)
                .is_ok_and(|digest| key.verify_digest_sig(&digest, signature).is_ok()),
        };
        is_good.then_some(()).ok_or(VerifyError::Invalid)
    }

    /// Returns the signature of `certificate` for a batch: see [`Verification::known_signature`].
    pub(crate) fn known_signature(
        &self,
        certificate: &Certificate<'_>,
        algorithm: SignatureAlgorithm,
        verification: &Verification,
    ) -> Option<KnownSignature> {
        let Message::Digest(hash) = self.scheme(algorithm).ok()?.message else {
            return None;
        };
        let digest = || digest::digest(hash, certificate.tbs());
        verification.known_signature(self.name.as_ref()?, digest, certificate.signature())
    }

    /// Verifies a signature that [`Self::known_signature`] returned for the same algorithm.
    pub(crate) fn verify_known(
        &self,
        known: &KnownSignature,
        algorithm: SignatureAlgorithm,
        verification: &Verification,
    ) -> Result<(), VerifyError> {
        let key = self.parsed(&self.scheme(algorithm)?)?;
        let complete = || {
            key.verify_digest_sig(known.digest(), known.signature())
                .is_ok()
        };
        let is_good = match self.in_use() {
            Some(key) => verification.verify_known(&key, known, complete),
            None => complete(),
        };
        is_good.then_some(()).ok_or(VerifyError::Invalid)
    }

    fn in_use(&self) -> Option<KeyInUse<'_>> {
        let (name, bits) = (self.name.as_ref()?, &self.bits);
        Some(KeyInUse { name, bits })
    }

    fn parsed(&self, scheme: &Scheme) -> Result<&ParsedPublicKey, VerifyError> {
        let parse = || ParsedPublicKey::new(scheme.verifier, &self.bits).ok();
        self.parsed[scheme.slot]
            .get_or_init(|| parse().map(Box::new))
            .as_deref()
            .ok_or_else(|| VerifyError::UnsupportedKey("the issuer's key is malformed".into()))
    }

    fn scheme(&self, algorithm: SignatureAlgorithm) -> Result<Scheme, VerifyError> {
        use SignatureAlgorithm::{Ecdsa, Ed25519, RsaPkcs1, RsaPss};
        let scheme = match (self.kind, algorithm) {
            (KeyKind::Rsa { modulus_bits }, _) if !(1024..=8192).contains(&modulus_bits) => {
                return Err(VerifyError::UnsupportedKey(format!(
                    "the issuer has an RSA key of {modulus_bits} bits; expected 1024 to 8192"
                )));
            }
            (KeyKind::Rsa { modulus_bits }, RsaPkcs1(hash)) => rsa_pkcs1(modulus_bits, hash),
            (KeyKind::Rsa { modulus_bits }, RsaPss(hash)) => rsa_pss(modulus_bits, hash),
            (KeyKind::P256 | KeyKind::P384 | KeyKind::P521, Ecdsa(hash)) => {
                Some(ecdsa(self.kind, hash))
            }
            (KeyKind::Ed25519, Ed25519) => Some(Scheme::whole(0, &aws::ED25519)),
            (KeyKind::Other, _) => {
                let detail = "the issuer's key is of an unknown type or curve";
                return Err(VerifyError::UnsupportedKey(detail.to_owned()));
            }
            _ => None,
        };
        scheme.ok_or_else(|| {
            VerifyError::UnsupportedAlgorithm(format!(
                "{algorithm} signatures cannot be verified with the issuer's {} key",
                self.kind
            ))
        })
    }
}

impl KeyKind {
    /// Returns the kind of key for our own arithmetic, if supported.
    fn known(self) -> Option<Kind> {
        match self {
            Self::P256 => Some(Kind::P256),
            Self::P384 => Some(Kind::P384),
            Self::Rsa { .. } => Some(Kind::Rsa),
            Self::P521 | Self::Ed25519 | Self::Other => None,
        }
    }
}

/// A verification algorithm, and the slot of the parsed key.
struct Scheme {
    slot: usize,
    verifier: &'static dyn VerificationAlgorithm,
    message: Message,
}

enum Message {
    /// aws-lc-rs hashes the message.
    Whole,
    /// This crate hashes the message, to try the prepared key first.
    Digest(&'static digest::Algorithm),
    /// SHA-1 for a curve whose verifier takes SHA-256: see [`padded_sha1`].
    PaddedSha1,
}

impl Scheme {
    fn whole(slot: usize, verifier: &'static dyn VerificationAlgorithm) -> Self {
        Self {
            slot,
            verifier,
            message: Message::Whole,
        }
    }

    fn digest(
        slot: usize,
        verifier: &'static dyn VerificationAlgorithm,
        hash: &'static digest::Algorithm,
    ) -> Self {
        Self {
            slot,
            verifier,
            message: Message::Digest(hash),
        }
    }
}

/// Four digests for PKCS #1 or ECDSA, three for PSS.
const SLOTS: usize = 7;

/// Returns the scheme; aws-lc-rs has no PKCS #1 verifier with SHA-384 for keys under 2048 bits.
fn rsa_pkcs1(modulus_bits: usize, hash: HashAlgorithm) -> Option<Scheme> {
    let (slot, verifier, hash): (_, &'static aws::RsaParameters, _) = match hash {
        HashAlgorithm::Sha1 => {
            let sha1 = &aws::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY;
            return Some(Scheme::whole(0, sha1));
        }
        HashAlgorithm::Sha256 => {
            let sha256 = &aws::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY;
            (1, sha256, &digest::SHA256)
        }
        HashAlgorithm::Sha384 if modulus_bits < 2048 => return None,
        HashAlgorithm::Sha384 => (2, &aws::RSA_PKCS1_2048_8192_SHA384, &digest::SHA384),
        HashAlgorithm::Sha512 => {
            let sha512 = &aws::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY;
            (3, sha512, &digest::SHA512)
        }
    };
    Some(Scheme::digest(slot, verifier, hash))
}

fn rsa_pss(modulus_bits: usize, hash: HashAlgorithm) -> Option<Scheme> {
    match hash {
        _ if modulus_bits < 2048 => None,
        HashAlgorithm::Sha1 => None,
        HashAlgorithm::Sha256 => Some(Scheme::whole(4, &aws::RSA_PSS_2048_8192_SHA256)),
        HashAlgorithm::Sha384 => Some(Scheme::whole(5, &aws::RSA_PSS_2048_8192_SHA384)),
        HashAlgorithm::Sha512 => Some(Scheme::whole(6, &aws::RSA_PSS_2048_8192_SHA512)),
    }
}

fn ecdsa(curve: KeyKind, hash: HashAlgorithm) -> Scheme {
    match (curve, hash) {
        (KeyKind::P256, HashAlgorithm::Sha1) => Scheme::whole(0, &aws::ECDSA_P256_SHA1_ASN1),
        (KeyKind::P256, HashAlgorithm::Sha256) => {
            Scheme::digest(1, &aws::ECDSA_P256_SHA256_ASN1, &digest::SHA256)
        }
        (KeyKind::P256, HashAlgorithm::Sha384) => {
            Scheme::digest(2, &aws::ECDSA_P256_SHA384_ASN1, &digest::SHA384)
        }
        (KeyKind::P256, HashAlgorithm::Sha512) => {
            Scheme::digest(3, &aws::ECDSA_P256_SHA512_ASN1, &digest::SHA512)
        }
        (KeyKind::P384, HashAlgorithm::Sha1) => Scheme {
            message: Message::PaddedSha1,
            ..Scheme::whole(1, &aws::ECDSA_P384_SHA256_ASN1)
        },
        (KeyKind::P384, HashAlgorithm::Sha256) => {
            Scheme::digest(1, &aws::ECDSA_P384_SHA256_ASN1, &digest::SHA256)
        }
        (KeyKind::P384, HashAlgorithm::Sha384) => {
            Scheme::digest(2, &aws::ECDSA_P384_SHA384_ASN1, &digest::SHA384)
        }
        (KeyKind::P384, HashAlgorithm::Sha512) => {
            Scheme::digest(3, &aws::ECDSA_P384_SHA512_ASN1, &digest::SHA512)
        }
        (_, HashAlgorithm::Sha1) => Scheme::whole(0, &aws::ECDSA_P521_SHA1_ASN1),
        (_, HashAlgorithm::Sha256) => Scheme::whole(1, &aws::ECDSA_P521_SHA256_ASN1),
        (_, HashAlgorithm::Sha384) => Scheme::whole(2, &aws::ECDSA_P521_SHA384_ASN1),
        (_, HashAlgorithm::Sha512) => Scheme::whole(3, &aws::ECDSA_P521_SHA512_ASN1),
    }
}

/// Returns the SHA-1 digest of a message as a SHA-256 digest with twelve zero bytes before it.
///
/// ECDSA converts the digest to an integer, truncated to the bits of the curve's order. On a curve
/// of 256 bits or more neither digest is truncated, and both are the same integer. A verifier for
/// SHA-256 therefore verifies SHA-1 signatures, too.
fn padded_sha1(message: &[u8]) -> Result<Digest, aws_lc_rs::error::Unspecified> {
    let sha1 = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, message);
    let mut padded = [0; 32];
    padded[12..].copy_from_slice(sha1.as_ref());
    Digest::import_less_safe(&padded, &digest::SHA256)
}

/// Returns `true` if `issuer` has issued `certificate`: the name of `issuer` matches, and its key
/// has signed `certificate`. A signature that cannot be verified (unknown algorithm, MD5, SHA-1)
/// proves nothing.
pub fn is_issued_by(certificate: &Certificate<'_>, issuer: &Certificate<'_>) -> bool {
    let Some(algorithm) = SignatureAlgorithm::read(certificate.algorithm()) else {
        return false;
    };
    let key = || IssuerKey::new(issuer);
    names_match(certificate.issuer(), issuer.subject())
        && key()
            .verify_message(certificate.tbs(), certificate.signature(), algorithm)
            .is_ok()
}

/// Returns the content of the BIT STRING in the SubjectPublicKeyInfo.
pub(crate) fn key_bits<'a>(certificate: &Certificate<'a>) -> Result<&'a [u8], DerError> {
    let mut fields = certificate.spki_tlv().reader();
    fields.expect(tag::SEQUENCE, "algorithm")?;
    let bit_string = fields.expect(tag::BIT_STRING, "subjectPublicKey")?;
    Ok(bit_string.value.get(1..).unwrap_or_default())
}

fn read_spki<'a>(certificate: &Certificate<'a>) -> Result<(KeyKind, &'a [u8]), DerError> {
    let mut fields = certificate.spki_tlv().reader();
    let mut algorithm = fields.expect(tag::SEQUENCE, "algorithm")?.reader();
    let identifier = algorithm.expect(tag::OID, "algorithm")?.value;
    let bit_string = fields.expect(tag::BIT_STRING, "subjectPublicKey")?;
    let bits = bit_string.value.get(1..).unwrap_or_default();
    let kind = match identifier {
        content::RSA_ENCRYPTION | content::RSA_PSS => KeyKind::Rsa {
            modulus_bits: modulus_bits(bits)?,
        },
        content::EC_PUBLIC_KEY => match algorithm.expect(tag::OID, "namedCurve")?.value {
            content::P256 => KeyKind::P256,
            content::P384 => KeyKind::P384,
            content::P521 => KeyKind::P521,
            _ => KeyKind::Other,
        },
        content::ED25519 => KeyKind::Ed25519,
        _ => KeyKind::Other,
    };
    Ok((kind, bits))
}

fn modulus_bits(rsa_public_key: &[u8]) -> Result<usize, DerError> {
    let mut fields = Reader::new(rsa_public_key)
        .expect(tag::SEQUENCE, "RSAPublicKey")?
        .reader();
    let modulus = fields.expect(tag::INTEGER, "modulus")?.value;
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let leading = modulus.get(zeros).map_or(0, |byte| byte.leading_zeros());
    Ok((modulus.len() - zeros) * 8 - leading as usize)
}
