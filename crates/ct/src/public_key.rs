//! The public keys of logs, and their IDs.

use std::fmt;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256};
use lucarne_x509::der::DerError;

use crate::entry::sha256;
use crate::seed;

/// SHA-256 of a log's SubjectPublicKeyInfo (RFC 6962 section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId(pub [u8; 32]);

/// Formats the ID in base64, as in log lists.
impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64_simd::STANDARD.encode_to_string(self.0))
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogId({self})")
    }
}

/// The reasons why a key cannot be read or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The seed does not have the 32 bytes of Sunlight's seeds.
    #[error("wrong length of the seed: expected {expected} bytes, found {found}", expected = seed::SEED_LEN)]
    SeedLength {
        /// Length of the seed in bytes.
        found: usize,
    },
    /// The seed gives no key (probability 2^-64).
    #[error("this seed gives no key: create another seed")]
    Derivation,
    /// No PEM block is a private key.
    #[error("the PEM file has no EC PRIVATE KEY or PRIVATE KEY block")]
    NoPem,
    /// The only private key of the PEM file is an encrypted PKCS #8 key.
    #[error("the key is encrypted: decrypt the key (openssl pkcs8 -in KEY -out NEW)")]
    Encrypted,
    /// A PEM block is damaged.
    #[error("the PEM block at line {line} is damaged: {why}")]
    Pem {
        /// Line number, starting at 1.
        line: usize,
        /// The reason.
        why: &'static str,
    },
    /// The key is not SEC 1, PKCS #8 or SubjectPublicKeyInfo.
    #[error("the key is not valid DER: {0}")]
    Der(#[from] DerError),
    /// The key has another curve or another type.
    #[error("the key is not an ECDSA P-256 key, which a log requires")]
    NotP256,
    /// The name cannot be the name of a cosigner.
    #[error(transparent)]
    Cosigner(#[from] lucarne_tlog::KeyError),
    /// RFC 6962 does not permit keys of this type for logs.
    #[error("the key is neither ECDSA on P-256 nor RSA of 2048 to 8192 bits")]
    NotOfALog,
    /// aws-lc-rs could not sign, which only happens without random numbers.
    #[error("the cryptographic library could not sign")]
    Signing,
}

/// HashAlgorithm sha256 and SignatureAlgorithm ecdsa (RFC 5246 section 7.4.1.4.1).
pub(crate) const SHA256_ECDSA: [u8; 2] = [4, 3];
/// SHA-256 with SignatureAlgorithm rsa.
const SHA256_RSA: [u8; 2] = [4, 1];

/// The public key of a log, for verification.
#[derive(Clone, Debug)]
pub struct PublicKey {
    key: ParsedPublicKey,
    /// The first bytes of a DigitallySigned by this key.
    algorithm: [u8; 2],
    log_id: LogId,
}

impl PublicKey {
    /// Reads a P-256 key from a SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`KeyError::NotP256`].
    pub fn from_spki(spki: &[u8]) -> Result<Self, KeyError> {
        let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, spki);
        Ok(Self {
            key: key.map_err(|_| KeyError::NotP256)?,
            algorithm: SHA256_ECDSA,
            log_id: LogId(sha256(&[spki])),
        })
    }

    /// Reads a key of any log of RFC 6962 (section 2.1.4): P-256, or RSA of 2048 to 8192 bits,
    /// which some old logs used.
    ///
    /// # Errors
    /// [`KeyError::NotOfALog`].
    pub fn from_spki_of_any_log(spki: &[u8]) -> Result<Self, KeyError> {
        Self::from_spki(spki).or_else(|_| {
            let key = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, spki);
            Ok(Self {
                key: key.map_err(|_| KeyError::NotOfALog)?,
                algorithm: SHA256_RSA,
                log_id: LogId(sha256(&[spki])),
            })
        })
    }

    /// Returns the log ID: SHA-256 of the SubjectPublicKeyInfo.
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// Returns the SubjectPublicKeyInfo in DER.
    pub fn spki(&self) -> &[u8] {
        self.key.as_ref()
    }

    /// Returns `true` if a DigitallySigned over `message` is valid for this key.
    pub(crate) fn verify(&self, message: &[u8], digitally_signed: &[u8]) -> bool {
        let Some(rest) = digitally_signed.strip_prefix(&self.algorithm) else {
            return false;
        };
        let Some((length, signature)) = rest.split_first_chunk() else {
            return false;
        };
        usize::from(u16::from_be_bytes(*length)) == signature.len()
            && self.key.verify_sig(message, signature).is_ok()
    }
}
