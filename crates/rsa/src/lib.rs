//! Verification of RSA signatures by frequently used keys, two and a half to four times cheaper
//! than general verification, on processors with AVX-512 IFMA (Intel's servers since Ice Lake,
//! AMD's since Zen 4).
//!
//! ```text
//! RSAPublicKey → modulus → KnownKey ┐
//! signature ────────────────────────┴→ power 65537 (ifma) → compare ← message ← digest
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`KnownKey`] | a public key, prepared for the vector instructions |
//! | [`KnownKey::accepts`] | verification of one signature (RSASSA-PKCS1-v1_5) |
//! | [`Hash`](enum@Hash) | the supported hash functions |
//! | `modulus` | the modulus of a key, and its constants of the Montgomery form |
//! | `ifma`, `number` | multiplication with vectors of 52-bit digits |
//!
//! A verification raises a number to the power 65537: seventeen consecutive multiplications modulo
//! the key. General libraries use the 64-bit multiplier, one product at a time, but the vector
//! units have eight multipliers of 52 bits. These multipliers need numbers in digits of 52 bits,
//! and the constants of the Montgomery form for the key. This crate computes both once for each
//! key.
//!
//! ```
//! # use aws_lc_rs::{digest, rand, rsa::KeySize, signature::{RSA_PKCS1_SHA256, KeyPair, RsaKeyPair}};
//! use lucarne_rsa::{Hash, KnownKey};
//! # let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
//! # let rsa_public_key = pair.public_key().as_ref();
//! # let message = b"message";
//! # let mut signature = vec![0; pair.public_modulus_len()];
//! # pair.sign(&RSA_PKCS1_SHA256, &rand::SystemRandom::new(), message, &mut signature).unwrap();
//! // `None` also if the processor lacks AVX-512 IFMA.
//! if let Some(key) = KnownKey::new(rsa_public_key) {
//!     let digest = digest::digest(&digest::SHA256, message);
//!     assert!(key.accepts(Hash::Sha256, digest.as_ref(), &signature));
//! }
//! ```
//!
//! # Limitations
//!
//! A signature that [`KnownKey::accepts`] accepts is valid. Use a complete verifier to confirm that
//! a signature is invalid. With this confirmation, the result is always the result of the complete
//! verifier. An error in the arithmetic of this crate would not accept invalid signatures: a wrong
//! power does not, by accident, equal the only valid message for the digest (RFC 8017, section
//! 9.2). An error would only miss valid signatures, which the complete verifier then accepts.
//!
//! The running time depends on the input, because verification has no secrets. Do not use this
//! crate for signing.
// Code that other processors do not use is still tested there.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod number;

#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(target_arch = "x86_64")]
mod modulus;
#[cfg(not(target_arch = "x86_64"))]
#[path = "elsewhere.rs"]
mod modulus;

use modulus::Modulus;

/// A public key, prepared for the vector instructions of the processor.
///
/// # Examples
///
/// ```
/// use aws_lc_rs::digest::{SHA384, digest};
/// use aws_lc_rs::rand::SystemRandom;
/// use aws_lc_rs::rsa::KeySize;
/// use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA384, RsaKeyPair};
/// use lucarne_rsa::{Hash, KnownKey};
///
/// let pair = RsaKeyPair::generate(KeySize::Rsa2048)?;
/// let mut signature = vec![0; pair.public_modulus_len()];
/// pair.sign(&RSA_PKCS1_SHA384, &SystemRandom::new(), b"message", &mut signature)?;
/// // `None` if the processor lacks AVX-512 IFMA.
/// if let Some(key) = KnownKey::new(pair.public_key().as_ref()) {
///     assert!(key.accepts(Hash::Sha384, digest(&SHA384, b"message").as_ref(), &signature));
///     assert!(!key.accepts(Hash::Sha384, digest(&SHA384, b"another").as_ref(), &signature));
/// }
/// assert!(KnownKey::new(b"not a key").is_none());
/// # Ok::<(), aws_lc_rs::error::Unspecified>(())
/// ```
#[derive(Debug)]
pub struct KnownKey(Size);

/// The modulus, in the smallest number of 512-bit vectors that have room for its digits.
#[derive(Debug)]
enum Size {
    Bits2048(Box<Modulus<5>>),
    Bits3072(Box<Modulus<8>>),
    Bits4096(Box<Modulus<10>>),
}

impl KnownKey {
    /// Maximum memory of a key in bytes.
    pub const MAX_SIZE: usize = 2048;

    /// Creates a key from its RSAPublicKey in DER (RFC 8017, appendix A.1.1). Returns `None` unless
    /// the modulus has 2048, 3072 or 4096 bits and is odd, the exponent is 65537, and the processor
    /// has AVX-512 IFMA. Takes as long as one to four verifications by the key.
    pub fn new(rsa_public_key: &[u8]) -> Option<Self> {
        let modulus = modulus(rsa_public_key)?;
        Some(Self(match modulus.len() {
            256 => Size::Bits2048(Modulus::new(modulus)?),
            384 => Size::Bits3072(Modulus::new(modulus)?),
            512 => Size::Bits4096(Modulus::new(modulus)?),
            _ => return None,
        }))
    }

    /// Returns `true` if `signature` is this key's signature over a message with this digest
    /// (RSASSA-PKCS1-v1_5, RFC 8017, section 8.2.2).
    ///
    /// `true` is certain, but `false` is not: see the [crate's documentation](crate).
    pub fn accepts(&self, hash: Hash, digest: &[u8], signature: &[u8]) -> bool {
        match &self.0 {
            Size::Bits2048(modulus) => modulus.accepts(hash, digest, signature),
            Size::Bits3072(modulus) => modulus.accepts(hash, digest, signature),
            Size::Bits4096(modulus) => modulus.accepts(hash, digest, signature),
        }
    }
}

/// Returns the modulus of a key with the exponent 65537. All keys of one length have the same
/// encoding around the modulus.
fn modulus(rsa_public_key: &[u8]) -> Option<&[u8]> {
    [256, 384, 512].into_iter().find_map(|length: u16| {
        let [high, low] = (length + 1).to_be_bytes();
        let [all_high, all_low] = (length + 10).to_be_bytes();
        let before = [0x30, 0x82, all_high, all_low, 2, 0x82, high, low, 0];
        let modulus = rsa_public_key.strip_prefix(&before)?;
        let modulus = modulus.strip_suffix(&[2, 3, 1, 0, 1])?;
        (modulus.len() == usize::from(length)).then_some(modulus)
    })
}

/// The hash functions of current signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// Returns the DER of a DigestInfo before the digest (section 9.2, note 1), and the length of
    /// the digest.
    fn prefix(self) -> ([u8; 19], usize) {
        let (last_arc, length) = match self {
            Self::Sha256 => (1, 32),
            Self::Sha384 => (2, 48),
            Self::Sha512 => (3, 64),
        };
        let prefix = [
            0x30,
            17 + length,
            0x30,
            13,
            6,
            9,
            0x60,
            0x86,
            0x48,
            1,
            0x65,
            3,
            4,
            2,
            last_arc,
            5,
            0,
            4,
            length,
        ];
        (prefix, usize::from(length))
    }
}

/// Writes the only encoded message of a digest for keys of this length, big-endian
/// (EMSA-PKCS1-v1_5, RFC 8017, section 9.2). Returns `false` if the digest has the wrong length for
/// this hash.
fn encode(hash: Hash, digest: &[u8], encoded: &mut [u8]) -> bool {
    let (prefix, length) = hash.prefix();
    if digest.len() != length {
        return false;
    }
    let padding = encoded.len() - prefix.len() - length;
    encoded[..padding].fill(0xff);
    encoded[..2].copy_from_slice(&[0, 1]);
    encoded[padding - 1] = 0;
    encoded[padding..padding + prefix.len()].copy_from_slice(&prefix);
    encoded[padding + prefix.len()..].copy_from_slice(digest);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_padding_name_and_digest() {
        let mut encoded = [0; 256];
        assert!(encode(Hash::Sha256, &[0xab; 32], &mut encoded));
        assert_eq!(encoded[..3], [0, 1, 0xff]);
        assert_eq!(encoded[203..205], [0xff, 0]);
        assert_eq!(encoded[205..209], [0x30, 0x31, 0x30, 0x0d]);
        assert_eq!(encoded[222..225], [4, 32, 0xab]);
        assert!(!encode(Hash::Sha384, &[0xab; 32], &mut encoded));
    }
}
