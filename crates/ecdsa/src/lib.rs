//! Verification of ECDSA signatures by a key that is met often: four to five times cheaper than
//! by a key that is met once.
//!
//! A general verifier computes u₁·G + u₂·Q for a Q that it has never seen, and most of its time
//! goes into doublings. Where the same key signs again and again, as the few hundred issuing CAs
//! of the web do in a log, and a log does for those who submit to it, the multiples of Q that
//! doublings would lead to can be written down once, and what remains is one addition for every
//! seven bits of u₂ and every ten of u₁.
//!
//! ```
//! # use aws_lc_rs::{digest, rand, signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair}};
//! use lucarne_ecdsa::KnownKey;
//! # let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
//! # let message = b"message";
//! # let signature = pair.sign(&rand::SystemRandom::new(), message).unwrap();
//! # let point = pair.public_key().as_ref();
//! let key = KnownKey::p256(point).expect("a point of the curve");
//! let digest = digest::digest(&digest::SHA256, message);
//! assert!(key.accepts(digest.as_ref(), signature.as_ref()));
//! ```
//!
//! # What it does not do
//!
//! It says yes, or nothing. A signature that [`KnownKey::accepts`] does not accept may still be
//! good: inputs that lead the short formulas for addition into their exceptions, which nobody
//! meets by chance, are given up, as is every encoding that is not DER. Who needs a no asks a
//! complete verifier, so that the two never differ in what they refuse.
//!
//! It takes as long as its input makes it take: verification handles nothing secret. Never sign
//! with it.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod curve;
mod integer;
mod inverse;
mod modulus;
mod point;
mod residue;
mod signature;
mod table;

use curve::{P256, P384};
use table::{FEW, PublicKey};

/// A public key with a table of its multiples.
#[derive(Debug)]
pub struct KnownKey(Multiples);

#[derive(Debug)]
enum Multiples {
    P256(PublicKey<P256, 4>),
    P256Alone(PublicKey<P256, 4, FEW>),
    P384(PublicKey<P384, 6>),
}

impl KnownKey {
    /// Memory of a P-256 key, in bytes.
    pub const P256_SIZE: usize = PublicKey::<P256, 4>::SIZE;
    /// Memory of a P-384 key, in bytes.
    pub const P384_SIZE: usize = PublicKey::<P384, 6>::SIZE;

    /// A P-256 key from its uncompressed point (SEC 1, section 2.3.3: 65 bytes, the first a 4).
    /// None if it is not on the curve. Takes as long as 55 verifications by it.
    pub fn p256(point: &[u8]) -> Option<Self> {
        PublicKey::new(point).map(|key| Self(Multiples::P256(key)))
    }

    /// A P-256 key that is nearly the only one, such as the log's for a monitor: its table is more
    /// than five times larger and takes as long as 310 verifications by it, each of which costs a
    /// tenth less as long as the table stays in the cache.
    pub fn p256_alone(point: &[u8]) -> Option<Self> {
        PublicKey::new(point).map(|key| Self(Multiples::P256Alone(key)))
    }

    /// A P-384 key from its uncompressed point (97 bytes, the first a 4).
    pub fn p384(point: &[u8]) -> Option<Self> {
        PublicKey::new(point).map(|key| Self(Multiples::P384(key)))
    }

    /// Returns true if `signature`, an ECDSA-Sig-Value in DER (RFC 3279 section 2.2.3), is this
    /// key's over a message with this digest (FIPS 186-5 section 6.4.2). The digest may be of any
    /// length.
    ///
    /// True is certain. False is not: see the [crate's documentation](crate).
    pub fn accepts(&self, digest: &[u8], signature: &[u8]) -> bool {
        match &self.0 {
            Multiples::P256(key) => key.accepts(digest, signature),
            Multiples::P256Alone(key) => key.accepts(digest, signature),
            Multiples::P384(key) => key.accepts(digest, signature),
        }
    }
}
