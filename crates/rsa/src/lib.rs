//! Verification of RSA signatures by a key that is met often: two and a half to four times cheaper
//! than by a general verifier, on processors with AVX-512 IFMA (Intel's servers since Ice Lake,
//! AMD's since Zen 4).
//!
//! To verify is to raise a number to the power 65537, which is seventeen multiplications modulo
//! the key, one after the other. What a general library has for that is written for the
//! multiplier of 64 bits, one product at a time; the vector units have eight of 52 bits. They are
//! no use to a single number unless its digits are 52 bits wide, and what belongs to the key (the
//! constants of Montgomery's method) is there already: so it is made once for each key.
//!
//! ```
//! # use aws_lc_rs::{digest, rand, rsa::KeySize, signature::{RSA_PKCS1_SHA256, KeyPair, RsaKeyPair}};
//! use lucarne_rsa::{Hash, KnownKey};
//! # let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
//! # let rsa_public_key = pair.public_key().as_ref();
//! # let message = b"message";
//! # let mut signature = vec![0; pair.public_modulus_len()];
//! # pair.sign(&RSA_PKCS1_SHA256, &rand::SystemRandom::new(), message, &mut signature).unwrap();
//! // None where the processor cannot do it, too.
//! if let Some(key) = KnownKey::new(rsa_public_key) {
//!     let digest = digest::digest(&digest::SHA256, message);
//!     assert!(key.accepts(Hash::Sha256, digest.as_ref(), &signature));
//! }
//! ```
//!
//! # What it does not do
//!
//! It says yes, or nothing. Who needs a no asks a complete verifier, so that the two never differ
//! in what they refuse. A mistake in the arithmetic here would lose good signatures, which then go
//! to that verifier, rather than accept bad ones: a power that is wrong by accident is not, in all
//! its bits, the one message (RFC 8017, section 9.2) that the digest calls for.
//!
//! It takes as long as its input makes it take: verification handles nothing secret. Never sign
//! with it.
// What other processors leave unused is tested there, too.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod message;
mod number;

#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(target_arch = "x86_64")]
mod modulus;
#[cfg(not(target_arch = "x86_64"))]
#[path = "elsewhere.rs"]
mod modulus;

pub use message::Hash;

use modulus::Modulus;

/// A public key that is ready for the processor's vectors.
#[derive(Debug)]
pub struct KnownKey(Size);

/// The number of 512-bit vectors whose digits of 52 bits hold a modulus.
#[derive(Debug)]
enum Size {
    Bits2048(Box<Modulus<5>>),
    Bits3072(Box<Modulus<8>>),
    Bits4096(Box<Modulus<10>>),
}

impl KnownKey {
    /// The most memory that a key takes, in bytes.
    pub const MAX_SIZE: usize = 2048;

    /// A key from its RSAPublicKey in DER (RFC 8017, appendix A.1.1). None unless the modulus has
    /// 2048, 3072 or 4096 bits and is odd, the exponent is 65537, and the processor has AVX-512
    /// IFMA. Takes as long as one to four verifications by it.
    pub fn new(rsa_public_key: &[u8]) -> Option<Self> {
        let modulus = modulus(rsa_public_key)?;
        Some(Self(match modulus.len() {
            256 => Size::Bits2048(Modulus::new(modulus)?),
            384 => Size::Bits3072(Modulus::new(modulus)?),
            512 => Size::Bits4096(Modulus::new(modulus)?),
            _ => return None,
        }))
    }

    /// Returns true if `signature` is this key's over a message with this digest
    /// (RSASSA-PKCS1-v1_5, RFC 8017, section 8.2.2).
    ///
    /// True means that it is. False does not mean that it is not: see the
    /// [crate's documentation](crate).
    pub fn accepts(&self, hash: Hash, digest: &[u8], signature: &[u8]) -> bool {
        match &self.0 {
            Size::Bits2048(modulus) => modulus.accepts(hash, digest, signature),
            Size::Bits3072(modulus) => modulus.accepts(hash, digest, signature),
            Size::Bits4096(modulus) => modulus.accepts(hash, digest, signature),
        }
    }
}

/// The modulus of a key with the exponent 65537. Those of one length are all written alike.
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
