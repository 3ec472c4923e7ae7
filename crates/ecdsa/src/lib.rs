//! Verification of ECDSA signatures (P-256 and P-384) by frequently used keys, four to five times
//! cheaper than general verification.
//!
//! ```text
//! point → table of multiples → KnownKey ┐
//! digest, signature ────────────────────┴→ Claim → verification ┬→ one signature: point
//!                                                               └→ several: ifma
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`KnownKey`] | a public key with a table of its multiples |
//! | [`KnownKey::accepts`] | verification of one signature |
//! | [`accept_all`], [`Claim`] | verification of several signatures in batches |
//! | [`has_batches`], [`BATCH`] | support for batches (AVX-512 IFMA), and their size |
//! | `verification` | the encoding of a signature, and its verification |
//! | `point`, `curve` | sums and multiples of points, the curves |
//! | `residue`, `inverse`, `integer` | arithmetic with 64-bit limbs |
//! | `ifma`, `digits` | arithmetic with vectors of 52-bit digits |
//!
//! A general verifier computes u₁·G + u₂·Q for an unknown Q, and spends most of its time on
//! doublings. Some keys sign often, such as the keys of the few hundred issuing CAs of the web. For
//! these keys, the multiples of Q are computed once. A verification then takes one addition for
//! every seven bits of u₂ and every ten bits of u₁.
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
//! On processors with AVX-512 IFMA, a batch costs a quarter of this time per signature:
//! [`accept_all`] verifies up to eight signatures by any keys of a curve together.
//!
//! # Limitations
//!
//! A signature that [`KnownKey::accepts`] accepts is valid. A signature that it does not accept may
//! still be valid: encodings other than DER are not accepted, and neither are inputs that lead the
//! short formulas for addition into their exceptions, which do not occur by chance. Use a complete
//! verifier to confirm that a signature is invalid. With this confirmation, the result is always
//! the result of the complete verifier.
//!
//! The running time depends on the input, because verification has no secrets. Do not use this
//! crate for signing.
// Code that other processors do not use is still tested there.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod curve;
mod digits;
mod integer;
mod inverse;
mod point;
mod residue;
mod verification;

#[cfg(not(target_arch = "x86_64"))]
#[path = "elsewhere.rs"]
mod ifma;
#[cfg(target_arch = "x86_64")]
mod ifma;

use curve::{P256, P384};
use ifma::Ifma;
use point::{Affine, FEW, MANY, Multiples, Table};
use verification::{Question, Vectorised};

/// Maximum number of signatures in one batch of [`accept_all`].
pub const BATCH: usize = ifma::LANES;

/// Returns `true` if the processor has the instructions for verification in batches
/// ([`accept_all`]).
pub fn has_batches() -> bool {
    Ifma::detect().is_some()
}

/// A public key with a table of its multiples.
///
/// # Examples
///
/// ```
/// use aws_lc_rs::digest::{SHA384, digest};
/// use aws_lc_rs::rand::SystemRandom;
/// use aws_lc_rs::signature::{ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
/// use lucarne_ecdsa::KnownKey;
///
/// let pair = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_ASN1_SIGNING)?;
/// let key = KnownKey::p384(pair.public_key().as_ref()).expect("a point of the curve");
/// let signature = pair.sign(&SystemRandom::new(), b"message")?;
/// assert!(key.accepts(digest(&SHA384, b"message").as_ref(), signature.as_ref()));
/// assert!(!key.accepts(digest(&SHA384, b"another").as_ref(), signature.as_ref()));
/// # Ok::<(), aws_lc_rs::error::Unspecified>(())
/// ```
#[derive(Debug)]
pub struct KnownKey(Kind);

#[derive(Debug)]
enum Kind {
    P256(Table<P256, 4, MANY>),
    P256Alone(Table<P256, 4, FEW>),
    P384(Table<P384, 6, MANY>),
}

impl KnownKey {
    /// Memory of a P-256 key in bytes.
    pub const P256_SIZE: usize = Table::<P256, 4, MANY>::SIZE;
    /// Memory of a P-384 key in bytes.
    pub const P384_SIZE: usize = Table::<P384, 6, MANY>::SIZE;

    /// Creates a P-256 key from its uncompressed point (SEC 1, section 2.3.3: 65 bytes, the first
    /// is 4). Returns `None` if the point is not on the curve. Takes as long as 55 verifications by
    /// the key.
    pub fn p256(point: &[u8]) -> Option<Self> {
        Affine::parse(point).map(|point| Self(Kind::P256(Table::new(point))))
    }

    /// Creates a P-256 key that is used almost exclusively, such as the log's key in a monitor. Its
    /// table is more than five times larger and takes as long as 310 verifications by the key. Each
    /// verification then costs a tenth less, as long as the table stays in the cache.
    pub fn p256_alone(point: &[u8]) -> Option<Self> {
        Affine::parse(point).map(|point| Self(Kind::P256Alone(Table::new(point))))
    }

    /// Creates a P-384 key from its uncompressed point (97 bytes, the first is 4). Returns `None`
    /// if the point is not on the curve.
    pub fn p384(point: &[u8]) -> Option<Self> {
        Affine::parse(point).map(|point| Self(Kind::P384(Table::new(point))))
    }

    /// Returns `true` if `signature`, an ECDSA-Sig-Value in DER (RFC 3279, section 2.2.3), is this
    /// key's signature over a message with this digest (FIPS 186-5, section 6.4.2). The digest may
    /// have any length.
    ///
    /// `true` is certain, but `false` is not: see the [crate's documentation](crate).
    pub fn accepts(&self, digest: &[u8], signature: &[u8]) -> bool {
        let claim = Claim {
            key: self,
            digest,
            signature,
        };
        claim.on_p256().is_some_and(|question| question.is_yes())
            || claim.on_p384().is_some_and(|question| question.is_yes())
    }
}

/// A signature with the key and the digest that it claims.
///
/// # Examples
///
/// ```
/// use aws_lc_rs::digest::{SHA384, digest};
/// use aws_lc_rs::rand::SystemRandom;
/// use aws_lc_rs::signature::{ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
/// use lucarne_ecdsa::{Claim, KnownKey, accept_all};
///
/// let pair = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_ASN1_SIGNING)?;
/// let key = KnownKey::p384(pair.public_key().as_ref()).expect("a point of the curve");
/// let signature = pair.sign(&SystemRandom::new(), b"message")?;
/// let digests = [digest(&SHA384, b"message"), digest(&SHA384, b"another")];
/// let claims: Vec<_> = digests
///     .iter()
///     .map(|digest| Claim { key: &key, digest: digest.as_ref(), signature: signature.as_ref() })
///     .collect();
/// assert_eq!(accept_all(&claims), [true, false]);
/// # Ok::<(), aws_lc_rs::error::Unspecified>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Claim<'c> {
    /// The key that is claimed to have created the signature.
    pub key: &'c KnownKey,
    /// The digest of the message, of any length.
    pub digest: &'c [u8],
    /// An ECDSA-Sig-Value in DER.
    pub signature: &'c [u8],
}

impl<'c> Claim<'c> {
    fn on_p256(&self) -> Option<Question<'c, P256, 4>> {
        let multiples: &dyn Multiples<P256, 4> = match &self.key.0 {
            Kind::P256(table) => table,
            Kind::P256Alone(table) => table,
            Kind::P384(_) => return None,
        };
        Question::read(multiples, self.digest, self.signature)
    }

    fn on_p384(&self) -> Option<Question<'c, P384, 6>> {
        match &self.key.0 {
            Kind::P384(table) => Question::read(table, self.digest, self.signature),
            Kind::P256(_) | Kind::P256Alone(_) => None,
        }
    }
}

/// Returns the result of [`KnownKey::accepts`] for each claim, independent of the other claims.
/// Claims on the same curve are verified in batches of [`BATCH`] if the processor supports batches.
pub fn accept_all(claims: &[Claim<'_>]) -> Vec<bool> {
    let mut accepted = vec![false; claims.len()];
    answer(claims.iter().map(Claim::on_p256), &mut accepted);
    answer(claims.iter().map(Claim::on_p384), &mut accepted);
    accepted
}

/// Stores the result of each claim on this curve at the position of the claim.
fn answer<'q, C: Vectorised<N> + 'q, const N: usize>(
    questions: impl Iterator<Item = Option<Question<'q, C, N>>>,
    answers: &mut [bool],
) {
    let asked = questions.enumerate();
    let (places, questions): (Vec<_>, Vec<_>) = asked
        .filter_map(|(place, question)| Some((place, question?)))
        .unzip();
    let is_yes = Question::are_yes(&questions, Ifma::detect());
    for (place, is_yes) in places.into_iter().zip(is_yes) {
        answers[place] = is_yes;
    }
}
