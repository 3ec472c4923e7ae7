//! Log keys: ECDSA on P-256 with SHA-256, the only kind that static CT logs use. SCTs of older
//! logs may also be verified by RSA keys.

use std::fmt;

use aws_lc_rs::agreement;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256,
};
use lucarne_x509::der::{DerError, Reader, tag};
use lucarne_x509::{oid::content, pem};

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

/// Holds what precedes the point in the SubjectPublicKeyInfo of a P-256 key.
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The private key of a log.
pub struct LogKey {
    pair: EcdsaKeyPair,
    spki: Vec<u8>,
    log_id: LogId,
}

impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogKey({})", self.log_id)
    }
}

impl LogKey {
    /// The key that a Sunlight seed file of 32 bytes stands for.
    ///
    /// # Errors
    /// [`KeyError::SeedLength`], [`KeyError::Derivation`].
    pub fn from_seed(seed: &[u8]) -> Result<Self, KeyError> {
        let found = seed.len();
        let seed = seed
            .try_into()
            .map_err(|_| KeyError::SeedLength { found })?;
        let scalar = seed::log_scalar(seed).ok_or(KeyError::Derivation)?;
        Self::from_scalar(&scalar)
    }

    /// The first private key of a PEM file: SEC 1 (`EC PRIVATE KEY`, as `openssl ecparam`
    /// and TesseraCT have it) or PKCS #8 (`PRIVATE KEY`), on P-256.
    ///
    /// # Errors
    /// Everything but those of seeds and of signing.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let named = |label: &str| matches!(label, "EC PRIVATE KEY" | "PRIVATE KEY");
        let block = pem::blocks(text.as_bytes())
            .into_iter()
            .find(|block| named(&block.label))
            .ok_or(KeyError::NoPem)?;
        let line = block.line;
        let der = block.contents.map_err(|why| KeyError::Pem { line, why })?;
        let scalar = match block.label.as_str() {
            "PRIVATE KEY" => read_pkcs8(&der)?,
            _ => read_sec1(&der)?,
        };
        Self::from_scalar(&scalar)
    }

    fn from_scalar(scalar: &[u8; 32]) -> Result<Self, KeyError> {
        let point = agreement::PrivateKey::from_private_key(&agreement::ECDH_P256, scalar)
            .map_err(|_| KeyError::NotP256)?
            .compute_public_key()
            .map_err(|_| KeyError::NotP256)?;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            scalar,
            point.as_ref(),
        )
        .map_err(|_| KeyError::NotP256)?;
        let spki = [&SPKI_PREFIX, point.as_ref()].concat();
        let log_id = LogId(sha256(&[&spki]));
        Ok(Self { pair, spki, log_id })
    }

    /// The log ID: SHA-256 of [`public_key_spki`](Self::public_key_spki).
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// The public key as a SubjectPublicKeyInfo in DER.
    pub fn public_key_spki(&self) -> &[u8] {
        &self.spki
    }

    /// The public key, for verifying what this key has signed.
    pub fn public_key(&self) -> Result<PublicKey, KeyError> {
        PublicKey::from_spki(&self.spki)
    }

    /// A DigitallySigned (RFC 5246 section 4.7) over `message`: SHA-256, ECDSA, the length
    /// and the DER signature.
    pub(crate) fn digitally_sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = self
            .pair
            .sign(&SystemRandom::new(), message)
            .map_err(|_| KeyError::Signing)?;
        let signature = signature.as_ref();
        let mut out = Vec::with_capacity(4 + signature.len());
        out.extend_from_slice(&SHA256_ECDSA);
        out.extend_from_slice(&(signature.len() as u16).to_be_bytes());
        out.extend_from_slice(signature);
        Ok(out)
    }
}

/// HashAlgorithm sha256 and SignatureAlgorithm ecdsa (RFC 5246 section 7.4.1.4.1).
const SHA256_ECDSA: [u8; 2] = [4, 3];
/// The same with SignatureAlgorithm rsa.
const SHA256_RSA: [u8; 2] = [4, 1];

/// ECPrivateKey (RFC 5915).
fn read_sec1(der: &[u8]) -> Result<[u8; 32], KeyError> {
    let mut fields = Reader::new(der)
        .expect(tag::SEQUENCE, "ECPrivateKey")?
        .reader();
    fields.expect(tag::INTEGER, "version")?;
    let scalar = fields.expect(tag::OCTET_STRING, "privateKey")?.value;
    if let Some(parameters) = fields.optional(tag::context(0), "parameters")? {
        let curve = parameters.reader().expect(tag::OID, "namedCurve")?;
        if curve.value != content::P256 {
            return Err(KeyError::NotP256);
        }
    }
    left_padded(scalar).ok_or(KeyError::NotP256)
}

/// PrivateKeyInfo (RFC 5958).
fn read_pkcs8(der: &[u8]) -> Result<[u8; 32], KeyError> {
    let mut fields = Reader::new(der)
        .expect(tag::SEQUENCE, "PrivateKeyInfo")?
        .reader();
    fields.expect(tag::INTEGER, "version")?;
    let mut algorithm = fields
        .expect(tag::SEQUENCE, "privateKeyAlgorithm")?
        .reader();
    let kind = algorithm.expect(tag::OID, "algorithm")?;
    let is_p256 = kind.value == content::EC_PUBLIC_KEY
        && algorithm.expect(tag::OID, "namedCurve")?.value == content::P256;
    match is_p256 {
        true => read_sec1(fields.expect(tag::OCTET_STRING, "privateKey")?.value),
        false => Err(KeyError::NotP256),
    }
}

/// Some writers drop leading zeros of the scalar.
fn left_padded(scalar: &[u8]) -> Option<[u8; 32]> {
    let mut padded = [0; 32];
    let start = padded.len().checked_sub(scalar.len())?;
    padded[start..].copy_from_slice(scalar);
    Some(padded)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn base64(bytes: &[u8]) -> String {
        base64_simd::STANDARD.encode_to_string(bytes)
    }

    /// Made with `sunlight-keygen`.
    #[test]
    fn sunlight_seeds() {
        let counted: Vec<u8> = (0..32).collect();
        for (seed, log_id, spki) in [
            (
                &counted[..],
                "vajQ/CaKPdKwq3De7U+r1exMHdq4cu1OxwlURya7KaI=",
                "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJYiFX1XUJTOISfsKZeBUvOun+vC8k8a8XclPz5nki3AJNivyNffzHlczWPzCYGKmfS8oGZkHhQmSq+mp7ItrOA==",
            ),
            (
                &[0xff; 32],
                "hMAax0PPdyDMAkBH9XSfq7Hl2MPuF1P0Vzmde/AxFUQ=",
                "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE9PM/NakueWnU2izD1jwdEgEr93ZA/fAB49i94ezvBa3V5ofHFSNTxf13rmY/4XIQ33FKluafqqgRQ9TV+n8FUA==",
            ),
        ] {
            let key = LogKey::from_seed(seed).unwrap();
            assert_eq!(key.log_id().to_string(), log_id);
            assert_eq!(base64(key.public_key_spki()), spki);
            assert_eq!(key.public_key().unwrap().log_id(), key.log_id());
        }
        assert_eq!(
            LogKey::from_seed(&[0; 16]).unwrap_err(),
            KeyError::SeedLength { found: 16 }
        );
    }

    /// Made with openssl for this test, in both forms.
    const SEC1: &str = "-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIFjUUjJOXmgL+FKcnUk76mbhNXlSNgXMqhFJ0YKDtOgUoAoGCCqGSM49
AwEHoUQDQgAEUjFaoCUqOS7UZl9NqcpiA9F1ipIuQEy/2Wz50XJb0m2ctw96AFec
hCM/gwCTbvO7CD/48PiCjYHCr1W3awbSag==
-----END EC PRIVATE KEY-----
";
    const PKCS8: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgWNRSMk5eaAv4Upyd
STvqZuE1eVI2BcyqEUnRgoO06BShRANCAARSMVqgJSo5LtRmX02pymID0XWKki5A
TL/ZbPnRclvSbZy3D3oAV5yEIz+DAJNu87sIP/jw+IKNgcKvVbdrBtJq
-----END PRIVATE KEY-----
";
    const SPKI: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEUjFaoCUqOS7UZl9NqcpiA9F1ipIuQEy/2Wz50XJb0m2ctw96AFechCM/gwCTbvO7CD/48PiCjYHCr1W3awbSag==";

    #[test]
    fn pem_in_both_forms() {
        for pem in [SEC1, PKCS8] {
            let key = LogKey::from_pem(pem).unwrap();
            assert_eq!(base64(key.public_key_spki()), SPKI);
        }
    }

    #[test]
    fn what_is_no_log_key() {
        let error = |pem: &str| LogKey::from_pem(pem).unwrap_err();
        assert_eq!(error("no PEM at all"), KeyError::NoPem);
        let damaged = PKCS8.replace('M', "?");
        assert!(matches!(error(&damaged), KeyError::Pem { line: 1, .. }));
        // Another curve, and no key at all.
        let other = PKCS8.replace(
            "MBMGByqGSM49AgEGCCqGSM49AwEH",
            "MBMGByqGSM49AgEGCCqGSM49AwEG",
        );
        assert_ne!(other, PKCS8);
        assert_eq!(error(&other), KeyError::NotP256);
        let empty = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----";
        assert!(matches!(error(empty), KeyError::Der(_)));
        assert!(PublicKey::from_spki(b"").is_err());
    }
}
