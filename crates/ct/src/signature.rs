//! Verifying the signatures of certificates with aws-lc-rs.

use std::sync::OnceLock;

use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::signature::{self as aws, ParsedPublicKey, VerificationAlgorithm};
use lucarne_ecdsa::KnownKey;

use crate::algorithm::{ACCEPTED, Hash, SignatureAlgorithm};
use crate::certificate::Certificate;
use crate::der::{DerError, Reader, tag};
use crate::frequent::Frequent;
use crate::rejection::Code;

/// An issuer's public key. Parsed by aws-lc-rs once for each algorithm that it is used with,
/// in practice one.
#[derive(Debug)]
pub(crate) struct IssuerKey {
    kind: KeyKind,
    /// RSAPublicKey, EC point or Ed25519 key: what the SubjectPublicKeyInfo's BIT STRING holds.
    bits: Box<[u8]>,
    parsed: [OnceLock<Option<Box<ParsedPublicKey>>>; SLOTS],
    known: Known,
}

/// The key in the form that tells good signatures fastest, where there is one.
#[derive(Debug)]
enum Known {
    /// Made when the key has verified a signature, if it can be made.
    Rsa(OnceLock<Option<lucarne_rsa::KnownKey>>),
    /// Made when it has verified many.
    Ecdsa(Frequent),
    /// There is none.
    No,
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

/// Why a signature was not found good.
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
    /// The key in a SubjectPublicKeyInfo. A key that cannot be used says so at its first use.
    pub(crate) fn new(certificate: &Certificate<'_>) -> Self {
        let (kind, bits) = read_spki(certificate).unwrap_or((KeyKind::Other, &[]));
        Self {
            kind,
            bits: bits.into(),
            parsed: Default::default(),
            known: match kind {
                KeyKind::Rsa { .. } => Known::Rsa(OnceLock::new()),
                KeyKind::P256 | KeyKind::P384 => Known::Ecdsa(Frequent::default()),
                KeyKind::P521 | KeyKind::Ed25519 | KeyKind::Other => Known::No,
            },
        }
    }

    /// Verifies the signature of `certificate`, which says that `algorithm` made it.
    pub(crate) fn verify(
        &self,
        certificate: &Certificate<'_>,
        algorithm: SignatureAlgorithm,
    ) -> Result<(), VerifyError> {
        let scheme = self.scheme(algorithm)?;
        let key = self.parsed[scheme.slot]
            .get_or_init(|| {
                ParsedPublicKey::new(scheme.verifier, &self.bits)
                    .ok()
                    .map(Box::new)
            })
            .as_ref()
            .ok_or_else(|| VerifyError::UnsupportedKey("the issuer's key is malformed".into()))?;
        let (tbs, signature) = (certificate.tbs(), certificate.signature());
        let verified = match scheme.message {
            Message::Whole => key.verify_sig(tbs, signature),
            Message::Digest(hash) => {
                let digest = digest::digest(hash, tbs);
                if self.known.accepts(&digest, signature) {
                    return Ok(());
                }
                key.verify_digest_sig(&digest, signature)
            }
            Message::PaddedSha1 => {
                padded_sha1(tbs).and_then(|digest| key.verify_digest_sig(&digest, signature))
            }
        };
        verified.map_err(|_| VerifyError::Invalid)?;
        self.verified();
        Ok(())
    }

    /// Notes that the key verified a signature: only what is signed below an accepted root counts,
    /// so that nobody else has us know keys.
    fn verified(&self) {
        match &self.known {
            Known::Rsa(key) => {
                key.get_or_init(|| lucarne_rsa::KnownKey::new(&self.bits));
            }
            Known::Ecdsa(frequent) => frequent.verified(|| match self.kind {
                KeyKind::P256 => KnownKey::p256(&self.bits),
                KeyKind::P384 => KnownKey::p384(&self.bits),
                _ => None,
            }),
            Known::No => {}
        }
    }

    fn scheme(&self, algorithm: SignatureAlgorithm) -> Result<Scheme, VerifyError> {
        use SignatureAlgorithm::{Ecdsa, Ed25519, RsaPkcs1, RsaPss};
        let scheme = match (self.kind, algorithm) {
            (KeyKind::Rsa { modulus_bits }, _) if !(1024..=8192).contains(&modulus_bits) => {
                return Err(VerifyError::UnsupportedKey(format!(
                    "the issuer has an RSA key of {modulus_bits} bits, accepted are 1024 to 8192"
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
                "{algorithm:?} signatures cannot be verified with the issuer's {:?} key",
                self.kind
            ))
        })
    }
}

impl Known {
    /// Whether the signature over what has this digest is certainly good. Asked before a complete
    /// verifier, which decides when the answer is no.
    fn accepts(&self, digest: &Digest, signature: &[u8]) -> bool {
        match self {
            Self::Rsa(key) => {
                let key = key.get().and_then(Option::as_ref);
                let known = key.zip(rsa_hash(digest));
                known.is_some_and(|(key, hash)| key.accepts(hash, digest.as_ref(), signature))
            }
            Self::Ecdsa(frequent) => frequent.accepts(digest, signature),
            Self::No => false,
        }
    }
}

fn rsa_hash(digest: &Digest) -> Option<lucarne_rsa::Hash> {
    match digest.algorithm() {
        algorithm if *algorithm == digest::SHA256 => Some(lucarne_rsa::Hash::Sha256),
        algorithm if *algorithm == digest::SHA384 => Some(lucarne_rsa::Hash::Sha384),
        algorithm if *algorithm == digest::SHA512 => Some(lucarne_rsa::Hash::Sha512),
        _ => None,
    }
}

/// How to verify: with what, and where the parsed key is kept.
struct Scheme {
    slot: usize,
    verifier: &'static dyn VerificationAlgorithm,
    message: Message,
}

enum Message {
    /// aws-lc-rs hashes the message.
    Whole,
    /// We do, to try what is known of the key first.
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

/// aws-lc-rs has no PKCS #1 verifier with SHA-384 for keys under 2048 bits.
fn rsa_pkcs1(modulus_bits: usize, hash: Hash) -> Option<Scheme> {
    let (slot, verifier, hash): (_, &'static aws::RsaParameters, _) = match hash {
        Hash::Sha1 => {
            let sha1 = &aws::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY;
            return Some(Scheme::whole(0, sha1));
        }
        Hash::Sha256 => {
            let sha256 = &aws::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY;
            (1, sha256, &digest::SHA256)
        }
        Hash::Sha384 if modulus_bits < 2048 => return None,
        Hash::Sha384 => (2, &aws::RSA_PKCS1_2048_8192_SHA384, &digest::SHA384),
        Hash::Sha512 => {
            let sha512 = &aws::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY;
            (3, sha512, &digest::SHA512)
        }
    };
    Some(Scheme::digest(slot, verifier, hash))
}

fn rsa_pss(modulus_bits: usize, hash: Hash) -> Option<Scheme> {
    match hash {
        _ if modulus_bits < 2048 => None,
        Hash::Sha1 => None,
        Hash::Sha256 => Some(Scheme::whole(4, &aws::RSA_PSS_2048_8192_SHA256)),
        Hash::Sha384 => Some(Scheme::whole(5, &aws::RSA_PSS_2048_8192_SHA384)),
        Hash::Sha512 => Some(Scheme::whole(6, &aws::RSA_PSS_2048_8192_SHA512)),
    }
}

fn ecdsa(curve: KeyKind, hash: Hash) -> Scheme {
    match (curve, hash) {
        (KeyKind::P256, Hash::Sha1) => Scheme::whole(0, &aws::ECDSA_P256_SHA1_ASN1),
        (KeyKind::P256, Hash::Sha256) => {
            Scheme::digest(1, &aws::ECDSA_P256_SHA256_ASN1, &digest::SHA256)
        }
        (KeyKind::P256, Hash::Sha384) => {
            Scheme::digest(2, &aws::ECDSA_P256_SHA384_ASN1, &digest::SHA384)
        }
        (KeyKind::P256, Hash::Sha512) => {
            Scheme::digest(3, &aws::ECDSA_P256_SHA512_ASN1, &digest::SHA512)
        }
        (KeyKind::P384, Hash::Sha1) => Scheme {
            message: Message::PaddedSha1,
            ..Scheme::whole(1, &aws::ECDSA_P384_SHA256_ASN1)
        },
        (KeyKind::P384, Hash::Sha256) => {
            Scheme::digest(1, &aws::ECDSA_P384_SHA256_ASN1, &digest::SHA256)
        }
        (KeyKind::P384, Hash::Sha384) => {
            Scheme::digest(2, &aws::ECDSA_P384_SHA384_ASN1, &digest::SHA384)
        }
        (KeyKind::P384, Hash::Sha512) => {
            Scheme::digest(3, &aws::ECDSA_P384_SHA512_ASN1, &digest::SHA512)
        }
        (_, Hash::Sha1) => Scheme::whole(0, &aws::ECDSA_P521_SHA1_ASN1),
        (_, Hash::Sha256) => Scheme::whole(1, &aws::ECDSA_P521_SHA256_ASN1),
        (_, Hash::Sha384) => Scheme::whole(2, &aws::ECDSA_P521_SHA384_ASN1),
        (_, Hash::Sha512) => Scheme::whole(3, &aws::ECDSA_P521_SHA512_ASN1),
    }
}

/// The SHA-1 digest of a message as a SHA-256 digest with twelve zero bytes before it.
///
/// ECDSA takes the digest as an integer, cut to the bits of the curve's order. On a curve of
/// 256 bits and more neither is cut, and both are the same integer, so that a verifier for
/// SHA-256 verifies SHA-1 signatures too.
fn padded_sha1(message: &[u8]) -> Result<Digest, aws_lc_rs::error::Unspecified> {
    let sha1 = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, message);
    let mut padded = [0; 32];
    padded[12..].copy_from_slice(sha1.as_ref());
    Digest::import_less_safe(&padded, &digest::SHA256)
}

/// rsaEncryption and id-RSASSA-PSS, 1.2.840.113549.1.1.1 and .10.
const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const RSASSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10];
/// id-ecPublicKey, 1.2.840.10045.2.1, and the named curves.
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const SECP256R1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const SECP384R1: &[u8] = &[0x2b, 0x81, 4, 0, 34];
const SECP521R1: &[u8] = &[0x2b, 0x81, 4, 0, 35];
/// id-Ed25519, 1.3.101.112.
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

fn read_spki<'a>(certificate: &Certificate<'a>) -> Result<(KeyKind, &'a [u8]), DerError> {
    let mut fields = certificate.spki_tlv().reader();
    let mut algorithm = fields.expect(tag::SEQUENCE, "algorithm")?.reader();
    let identifier = algorithm.expect(tag::OID, "algorithm")?.value;
    let bit_string = fields.expect(tag::BIT_STRING, "subjectPublicKey")?;
    let bits = bit_string.value.get(1..).unwrap_or_default();
    let kind = match identifier {
        RSA_ENCRYPTION | RSASSA_PSS => KeyKind::Rsa {
            modulus_bits: modulus_bits(bits)?,
        },
        EC_PUBLIC_KEY => match algorithm.expect(tag::OID, "namedCurve")?.value {
            SECP256R1 => KeyKind::P256,
            SECP384R1 => KeyKind::P384,
            SECP521R1 => KeyKind::P521,
            _ => KeyKind::Other,
        },
        ED25519 => KeyKind::Ed25519,
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
