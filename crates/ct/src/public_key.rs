//! The public keys of logs, and the IDs that are made of them.

use std::fmt;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256};
use lucarne_x509::der::DerError;

use crate::entry::sha256;
use crate::seed;

/// SHA-256 of a log's SubjectPublicKeyInfo (RFC 6962 section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId(pub [u8; 32]);

/// Base64, as log lists have it.
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

/// The reasons why a key cannot be had or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A seed of another length than Sunlight's.
    #[error("a seed has {expected} bytes, this one has {found}", expected = seed::SEED_LEN)]
    SeedLength {
        /// Its length in bytes.
        found: usize,
    },
    /// Chance of 2^-64: a seed that gives no key.
    #[error("this seed gives no key; make another one")]
    Derivation,
    /// No private key among the PEM blocks.
    #[error("no block EC PRIVATE KEY or PRIVATE KEY in the PEM file")]
    NoPem,
    /// A PEM block that is damaged.
    #[error("the PEM block at line {line} is damaged: {why}")]
    Pem {
        /// Counted from 1.
        line: usize,
        /// The problem.
        why: &'static str,
    },
    /// Not SEC 1, PKCS #8 or SubjectPublicKeyInfo.
    #[error("the key is not valid DER: {0}")]
    Der(#[from] DerError),
    /// Another curve, another type.
    #[error("the key is not an ECDSA P-256 key, which is what a log signs with")]
    NotP256,
    /// Neither of the kinds that RFC 6962 lets logs have.
    #[error("the key is neither ECDSA on P-256 nor RSA of 2048 to 8192 bits")]
    NotOfALog,
    /// aws-lc-rs could not sign, which only happens without randomness.
    #[error("the cryptographic library could not sign")]
    Signing,
}

/// HashAlgorithm sha256 and SignatureAlgorithm ecdsa (RFC 5246 section 7.4.1.4.1).
pub(crate) const SHA256_ECDSA: [u8; 2] = [4, 3];
/// The same with SignatureAlgorithm rsa.
const SHA256_RSA: [u8; 2] = [4, 1];

/// The public key of a log, for whoever checks it.
#[derive(Debug)]
pub struct PublicKey {
    key: ParsedPublicKey,
    /// Holds what a DigitallySigned by this key begins with.
    algorithm: [u8; 2],
    log_id: LogId,
}

impl PublicKey {
    /// The key in a SubjectPublicKeyInfo, which must be on P-256.
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

    /// The key of any log that RFC 6962 (section 2.1.4) knows: on P-256, or RSA of 2048 to
    /// 8192 bits. Some logs of the past signed with RSA.
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

    /// The log ID: SHA-256 of the SubjectPublicKeyInfo.
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// Returns whether a DigitallySigned is this key's over `message`.
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
