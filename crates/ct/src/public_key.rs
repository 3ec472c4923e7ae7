//! The public keys of logs, their IDs, and a key as an argument of a command.

use std::fmt;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256};
use base64_simd::STANDARD;
use lucarne_x509::der::DerError;
use lucarne_x509::pem::{self, PemError};

use crate::entry::sha256;
use crate::seed;

/// SHA-256 of a log's SubjectPublicKeyInfo (RFC 6962 section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId(pub [u8; 32]);

/// Formats the ID in base64, as in log lists.
impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode_to_string(self.0))
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

/// The reasons why a key argument is invalid.
#[derive(Debug, thiserror::Error)]
pub enum PublicKeyError {
    /// The text is neither base64 nor a readable file.
    #[error("the public key {text:?} is neither base64 nor a readable file ({problem})")]
    Unreadable {
        /// The argument as given.
        text: String,
        /// Error of the operating system.
        problem: std::io::Error,
    },
    /// The file is not PEM.
    #[error("{file}: {problem}")]
    Pem {
        /// Path of the file.
        file: String,
        /// The reason.
        problem: PemError,
    },
    /// The file has no public key.
    #[error("{0}: the file has no PUBLIC KEY block")]
    NoKey(String),
}

/// Returns the SubjectPublicKeyInfo for a key argument: base64 of the DER, or a PEM file.
///
/// # Errors
/// If the argument is neither. The key itself is not checked.
pub fn given_public_key(text: &str) -> Result<Vec<u8>, PublicKeyError> {
    if let Ok(spki) = STANDARD.decode_to_vec(text.trim()) {
        return Ok(spki);
    }
    let file = std::fs::read_to_string(text).map_err(|problem| PublicKeyError::Unreadable {
        text: text.to_owned(),
        problem,
    })?;
    let blocks = pem::decode(&file).map_err(|problem| PublicKeyError::Pem {
        file: text.to_owned(),
        problem,
    })?;
    let mut keys = blocks
        .into_iter()
        .filter(|(label, _)| label == "PUBLIC KEY");
    keys.next()
        .map(|(_, spki)| spki)
        .ok_or_else(|| PublicKeyError::NoKey(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_two_forms() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key.pem");
        std::fs::write(&file, pem::encode("PUBLIC KEY", &[1, 2, 3])).unwrap();
        assert_eq!(given_public_key(file.to_str().unwrap()).unwrap(), [1, 2, 3]);
        assert_eq!(given_public_key("AQID").unwrap(), [1, 2, 3]);
        assert!(
            given_public_key("/nowhere/key.pem")
                .unwrap_err()
                .to_string()
                .contains("/nowhere")
        );
    }
}
