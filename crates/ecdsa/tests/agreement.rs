//! Agreement with aws-lc-rs on valid and invalid signatures, and at the limits of number ranges.

#![allow(clippy::unwrap_used)]

#[path = "agreement/wycheproof.rs"]
mod wycheproof;

use aws_lc_rs::digest::{self, SHA256, SHA384};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature as aws;
use aws_lc_rs::signature::KeyPair;
use lucarne_ecdsa::{BATCH, Claim, KnownKey, accept_all};
use proptest::prelude::*;

/// A curve with both implementations.
struct Pair {
    signer: aws::EcdsaKeyPair,
    theirs: &'static dyn aws::VerificationAlgorithm,
    ours: KnownKey,
    hash: &'static digest::Algorithm,
}

impl Pair {
    fn p256(known: fn(&[u8]) -> Option<KnownKey>) -> Self {
        let signer = aws::EcdsaKeyPair::generate(&aws::ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let ours = known(signer.public_key().as_ref()).unwrap();
        let theirs = &aws::ECDSA_P256_SHA256_ASN1;
        Self {
            signer,
            theirs,
            ours,
            hash: &SHA256,
        }
    }

    fn p384() -> Self {
        let signer = aws::EcdsaKeyPair::generate(&aws::ECDSA_P384_SHA384_ASN1_SIGNING).unwrap();
        let ours = KnownKey::p384(signer.public_key().as_ref()).unwrap();
        let theirs = &aws::ECDSA_P384_SHA384_ASN1;
        Self {
            signer,
            theirs,
            ours,
            hash: &SHA384,
        }
    }

    /// Returns one pair of every kind.
    fn all() -> [Self; 3] {
        [
            Self::p256(KnownKey::p256),
            Self::p256(KnownKey::p256_alone),
            Self::p384(),
        ]
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let signature = self.signer.sign(&SystemRandom::new(), message);
        signature.unwrap().as_ref().to_vec()
    }

    /// Verifies a signature alone and in every lane of a batch; the result must be the same.
    fn ours(&self, message: &[u8], signature: &[u8]) -> bool {
        let digest = digest::digest(self.hash, message);
        let (key, digest) = (&self.ours, digest.as_ref());
        let alone = key.accepts(digest, signature);
        let claim = Claim {
            key,
            digest,
            signature,
        };
        assert_eq!(accept_all(&[claim; BATCH]), [alone; BATCH]);
        alone
    }

    fn theirs(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = self.signer.public_key().as_ref();
        aws::UnparsedPublicKey::new(self.theirs, key)
            .verify(message, signature)
            .is_ok()
    }
}

#[test]
fn good_signatures_are_accepted() {
    for _ in 0..5 {
        for pair in Pair::all() {
            for number in 0..100u32 {
                let message = number.to_be_bytes();
                let signature = pair.sign(&message);
                assert!(pair.ours(&message, &signature));
                assert!(!pair.ours(b"another message", &signature));
            }
        }
    }
}

/// Keys of all kinds, in batches of different lengths, with one invalid signature at every
/// position.
#[test]
fn no_signature_changes_what_is_said_of_another() {
    let pairs: Vec<_> = (0..3).flat_map(|_| Pair::all()).collect();
    let of = |number: usize| {
        let pair = &pairs[number * number % pairs.len()];
        let message = number.to_be_bytes();
        let signature = pair.sign(&message);
        (pair, digest::digest(pair.hash, &message), signature)
    };
    let signed: Vec<_> = (0..3 * BATCH + 1).map(of).collect();
    for count in 0..=signed.len() {
        for bad in 0..=count {
            // In the last case no signature is invalid.
            let signature = |place: usize| {
                let mut signature = signed[place].2.clone();
                if place == bad {
                    // The flipped bit is in the DER, in r or in s.
                    let at = bad * 7 % signature.len();
                    signature[at] ^= 1;
                }
                signature
            };
            let signatures: Vec<_> = (0..count).map(signature).collect();
            let claim = |(place, signature)| {
                let (pair, digest, _): &(&Pair, digest::Digest, Vec<u8>) = &signed[place];
                Claim {
                    key: &pair.ours,
                    digest: digest.as_ref(),
                    signature,
                }
            };
            let claims = signatures.iter().map(Vec::as_slice).enumerate().map(claim);
            let expected: Vec<_> = (0..count).map(|place| place != bad).collect();
            let accepted = accept_all(&claims.collect::<Vec<_>>());
            assert_eq!(accepted, expected, "{bad} of {count}");
        }
    }
}

#[test]
fn the_signature_of_another_key_is_not_accepted() {
    for (pair, other) in Pair::all().iter().zip(&Pair::all()) {
        assert!(!pair.ours(b"message", &other.sign(b"message")));
    }
}

/// Every combination of curve and digest that a certificate can have.
#[test]
fn digests_shorter_and_longer_than_the_order() {
    let p256 = aws::EcdsaKeyPair::generate(&aws::ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
    let message = b"message";
    // A longer digest is truncated: a signature over the first 256 bits of SHA-384 is valid for
    // all.
    let long = digest::digest(&SHA384, message);
    let cut = digest::Digest::import_less_safe(&long.as_ref()[..32], &SHA256).unwrap();
    let signature = p256.sign_digest(&cut).unwrap();
    let known = KnownKey::p256(p256.public_key().as_ref()).unwrap();
    assert!(known.accepts(long.as_ref(), signature.as_ref()));

    // A shorter digest is a smaller number: leading zeros change nothing.
    let p384 = aws::EcdsaKeyPair::generate(&aws::ECDSA_P384_SHA384_ASN1_SIGNING).unwrap();
    let short = digest::digest(&SHA256, message);
    let padded = [&[0; 16], short.as_ref()].concat();
    let padded = digest::Digest::import_less_safe(&padded, &SHA384).unwrap();
    let signature = p384.sign_digest(&padded).unwrap();
    let known = KnownKey::p384(p384.public_key().as_ref()).unwrap();
    assert!(known.accepts(short.as_ref(), signature.as_ref()));
}

/// Limits of r and s: 0, 1, n - 1, n, n + 1, p, 2^bits - 1.
#[test]
fn edges_of_the_ranges_are_refused_as_aws_lc_refuses_them() {
    const N256: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
    const P256: &str = "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff";
    const N384: &str = "ffffffffffffffffffffffffffffffffffffffffffffffff\
                        c7634d81f4372ddf581a0db248b0a77aecec196accc52973";
    const P384: &str = "ffffffffffffffffffffffffffffffffffffffffffffffff\
                        fffffffffffffffeffffffff0000000000000000ffffffff";
    for (pair, order, prime) in [
        (Pair::p256(KnownKey::p256), N256, P256),
        (Pair::p384(), N384, P384),
    ] {
        let bytes = |hex: &str| {
            let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(digit).collect::<Vec<_>>()
        };
        let near = |hex: &str, change: i8| {
            let mut number = bytes(hex);
            let last = number.last_mut().unwrap();
            *last = last.wrapping_add_signed(change);
            number
        };
        let all_ones = vec![0xff; order.len() / 2];
        let numbers = [
            vec![0],
            vec![1],
            near(order, -1),
            near(order, 0),
            near(order, 1),
            near(prime, 0),
            all_ones,
        ];
        for r in &numbers {
            for s in &numbers {
                let signature = der(r, s);
                assert!(!pair.theirs(b"message", &signature));
                assert!(!pair.ours(b"message", &signature));
            }
        }
        // r or s plus the order is the same number modulo the order, but not a valid signature.
        let good = pair.sign(b"message");
        assert!(pair.ours(b"message", &good));
    }
}

/// Encodes the ECDSA-Sig-Value of two numbers.
fn der(r: &[u8], s: &[u8]) -> Vec<u8> {
    let integer = |number: &[u8]| {
        let pad = usize::from(number[0] >= 0x80);
        let mut out = vec![2, (number.len() + pad) as u8];
        out.extend(std::iter::repeat_n(0, pad));
        out.extend_from_slice(number);
        out
    };
    let body = [integer(r), integer(s)].concat();
    [vec![0x30, body.len() as u8], body].concat()
}

#[test]
fn a_point_that_is_not_one_of_the_curve() {
    let pair = Pair::p256(KnownKey::p256);
    let good = pair.signer.public_key().as_ref().to_vec();
    assert!(KnownKey::p256(&good).is_some());
    for at in [1, 32, 64] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(KnownKey::p256(&bad).is_none());
    }
    let mut compressed = good[..33].to_vec();
    compressed[0] = 2 + (good[64] & 1);
    assert!(KnownKey::p256(&compressed).is_none());
    assert!(KnownKey::p256(&good[..64]).is_none());
    assert!(KnownKey::p256(&[]).is_none());
    assert!(KnownKey::p256(&[0]).is_none());
    assert!(KnownKey::p384(&good).is_none());
    // A coordinate that is not below the prime, though congruent to a valid one.
    let mut large = [0xff; 65];
    large[0] = 4;
    assert!(KnownKey::p256(&large).is_none());
}

#[test]
fn the_table_is_as_large_as_documented() {
    assert_eq!(KnownKey::P256_SIZE, 37 * 64 * 64);
    assert_eq!(KnownKey::P384_SIZE, 55 * 64 * 96);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any changed bytes of a signature, we never accept it if aws-lc-rs does not, and we
    /// accept unchanged signatures.
    #[test]
    fn agreement_on_changed_signatures(
        kind in 0..3usize,
        message in prop::collection::vec(any::<u8>(), 0..100),
        change in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let [.., pair] = &Pair::all()[..=kind] else { unreachable!() };
        let mut signature = pair.sign(&message);
        for (at, flip) in change {
            let at = at.index(signature.len());
            signature[at] ^= flip;
        }
        prop_assert_eq!(pair.ours(&message, &signature), pair.theirs(&message, &signature));
    }
}
