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
//! Where the processor has AVX-512 IFMA, signatures that are there at the same time cost a quarter of
//! that again: [`accept_all`] verifies up to eight together, by whatever keys of a curve.
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
// What other processors leave unused is tested there, too.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod curve;
mod digits;
mod integer;
mod inverse;
mod modulus;
mod point;
mod residue;
mod signature;
mod table;
mod verification;

#[cfg(not(target_arch = "x86_64"))]
#[path = "elsewhere.rs"]
mod ifma;
#[cfg(target_arch = "x86_64")]
mod ifma;

use curve::{P256, P384};
use ifma::Ifma;
use point::Affine;
use table::{FEW, MANY, Multiples, Table};
use verification::{Question, Vectorised};

/// Signatures that [`accept_all`] verifies together: more are more than one batch.
pub const BATCH: usize = ifma::LANES;

/// Returns true if the processor can verify signatures together.
pub fn has_batches() -> bool {
    Ifma::detect().is_some()
}

/// A public key with a table of its multiples.
#[derive(Debug)]
pub struct KnownKey(Kind);

#[derive(Debug)]
enum Kind {
    P256(Table<P256, 4, MANY>),
    P256Alone(Table<P256, 4, FEW>),
    P384(Table<P384, 6, MANY>),
}

impl KnownKey {
    /// Memory of a P-256 key, in bytes.
    pub const P256_SIZE: usize = Table::<P256, 4, MANY>::SIZE;
    /// Memory of a P-384 key, in bytes.
    pub const P384_SIZE: usize = Table::<P384, 6, MANY>::SIZE;

    /// A P-256 key from its uncompressed point (SEC 1, section 2.3.3: 65 bytes, the first a 4).
    /// None if it is not on the curve. Takes as long as 55 verifications by it.
    pub fn p256(point: &[u8]) -> Option<Self> {
        Affine::parse(point).map(|point| Self(Kind::P256(Table::new(point))))
    }

    /// A P-256 key that is nearly the only one, such as the log's for a monitor: its table is more
    /// than five times larger and takes as long as 310 verifications by it, each of which costs a
    /// tenth less as long as the table stays in the cache.
    pub fn p256_alone(point: &[u8]) -> Option<Self> {
        Affine::parse(point).map(|point| Self(Kind::P256Alone(Table::new(point))))
    }

    /// A P-384 key from its uncompressed point (97 bytes, the first a 4).
    pub fn p384(point: &[u8]) -> Option<Self> {
        Affine::parse(point).map(|point| Self(Kind::P384(Table::new(point))))
    }

    /// Returns true if `signature`, an ECDSA-Sig-Value in DER (RFC 3279 section 2.2.3), is this
    /// key's over a message with this digest (FIPS 186-5 section 6.4.2). The digest may be of any
    /// length.
    ///
    /// True is certain. False is not: see the [crate's documentation](crate).
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

/// A signature, and whose it is said to be over what.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'c> {
    /// The key.
    pub key: &'c KnownKey,
    /// The message's digest, of any length.
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

/// Returns for each claim what [`KnownKey::accepts`] returns, and none depends on another. Claims
/// on the same curve are verified [`BATCH`] at a time, where the processor can do that.
pub fn accept_all(claims: &[Claim<'_>]) -> Vec<bool> {
    let mut accepted = vec![false; claims.len()];
    answer(claims.iter().map(Claim::on_p256), &mut accepted);
    answer(claims.iter().map(Claim::on_p384), &mut accepted);
    accepted
}

/// Notes the answer to each question that there is in its place.
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
