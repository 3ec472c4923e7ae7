//! Agreement with aws-lc-rs on valid and invalid signatures.

#![allow(clippy::unwrap_used)]

#[path = "agreement/wycheproof.rs"]
mod wycheproof;

use std::sync::LazyLock;

use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature as aws;
use aws_lc_rs::signature::KeyPair as _;
use lucarne_rsa::{Hash, KnownKey};
use proptest::prelude::*;

/// A key, with both implementations.
struct Pair {
    signer: aws::RsaKeyPair,
    ours: Option<KnownKey>,
}

impl Pair {
    fn new(size: KeySize) -> Self {
        let signer = aws::RsaKeyPair::generate(size).unwrap();
        let ours = KnownKey::new(signer.public_key().as_ref());
        Self { signer, ours }
    }

    fn sign(&self, scheme: &Scheme, message: &[u8]) -> Vec<u8> {
        let mut signature = vec![0; self.signer.public_modulus_len()];
        self.signer
            .sign(scheme.sign, &SystemRandom::new(), message, &mut signature)
            .unwrap();
        signature
    }

    fn ours(&self, scheme: &Scheme, message: &[u8], signature: &[u8]) -> Option<bool> {
        let digest = digest::digest(scheme.digest, message);
        let key = self.ours.as_ref()?;
        Some(key.accepts(scheme.hash, digest.as_ref(), signature))
    }

    fn theirs(&self, scheme: &Scheme, message: &[u8], signature: &[u8]) -> bool {
        let key = aws::UnparsedPublicKey::new(scheme.verify, self.signer.public_key());
        key.verify(message, signature).is_ok()
    }
}

struct Scheme {
    hash: Hash,
    digest: &'static digest::Algorithm,
    sign: &'static dyn aws::RsaEncoding,
    verify: &'static aws::RsaParameters,
}

static SCHEMES: [Scheme; 3] = [
    Scheme {
        hash: Hash::Sha256,
        digest: &SHA256,
        sign: &aws::RSA_PKCS1_SHA256,
        verify: &aws::RSA_PKCS1_2048_8192_SHA256,
    },
    Scheme {
        hash: Hash::Sha384,
        digest: &SHA384,
        sign: &aws::RSA_PKCS1_SHA384,
        verify: &aws::RSA_PKCS1_2048_8192_SHA384,
    },
    Scheme {
        hash: Hash::Sha512,
        digest: &SHA512,
        sign: &aws::RSA_PKCS1_SHA512,
        verify: &aws::RSA_PKCS1_2048_8192_SHA512,
    },
];

/// The keys of every length.
static PAIRS: LazyLock<[Pair; 3]> = LazyLock::new(|| {
    let pairs = [KeySize::Rsa2048, KeySize::Rsa3072, KeySize::Rsa4096].map(Pair::new);
    if pairs[0].ours.is_none() {
        eprintln!("not tested: this processor has no AVX-512 IFMA");
    }
    pairs
});

#[test]
fn good_signatures_are_accepted() {
    for pair in &*PAIRS {
        for scheme in &SCHEMES {
            for message in [&b""[..], b"message", &[7; 1200]] {
                let signature = pair.sign(scheme, message);
                assert!(pair.theirs(scheme, message, &signature));
                assert_ne!(pair.ours(scheme, message, &signature), Some(false));
            }
        }
    }
}

#[test]
fn what_is_of_another_key_hash_message_or_length_is_not() {
    let [pair, .., other] = &*PAIRS;
    let [scheme, other_scheme, _] = &SCHEMES;
    let signature = pair.sign(scheme, b"message");
    assert_ne!(pair.ours(scheme, b"other", &signature), Some(true));
    assert_ne!(pair.ours(other_scheme, b"message", &signature), Some(true));
    assert_ne!(other.ours(scheme, b"message", &signature), Some(true));
    let longer = [&[0], &signature[..]].concat();
    for wrong in [&[][..], &signature[1..], &longer] {
        assert_ne!(pair.ours(scheme, b"message", wrong), Some(true));
    }
    if let Some(key) = &pair.ours {
        assert!(!key.accepts(Hash::Sha256, b"short", &signature));
    }
}

/// The sum of a signature and n is the same number modulo n: only the comparison with n detects it.
#[test]
fn a_signature_that_is_not_below_the_modulus_is_not_accepted() {
    let [pair, ..] = &*PAIRS;
    let [scheme, ..] = &SCHEMES;
    let public = pair.signer.public_key().as_ref();
    let modulus = &public[public.len() - 261..public.len() - 5];
    let fits = (0_u32..1000).find_map(|count| {
        let message = count.to_be_bytes();
        let mut sum = pair.sign(scheme, &message);
        let mut carry = 0;
        for (byte, n) in sum.iter_mut().zip(modulus).rev() {
            let total = u16::from(*byte) + u16::from(*n) + carry;
            (*byte, carry) = (total as u8, total >> 8);
        }
        (carry == 0).then_some((message, sum))
    });
    // There is no such signature if the modulus is close to the end of its range.
    let Some((message, sum)) = fits else { return };
    assert!(!pair.theirs(scheme, &message, &sum));
    assert_ne!(pair.ours(scheme, &message, &sum), Some(true));
}

#[test]
fn other_keys_are_left_to_others() {
    let [pair, ..] = &*PAIRS;
    let public = pair.signer.public_key().as_ref();
    let mut exponent_3 = public.to_vec();
    let last = exponent_3.len() - 1;
    exponent_3[last] = 3;
    for other in [&[][..], &public[1..], &public[..last], &exponent_3] {
        assert!(KnownKey::new(other).is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_changed_bit_is_not_accepted(
        size in 0..3_usize, scheme in 0..3_usize, message: [u8; 16], bit: prop::sample::Index,
    ) {
        let (pair, scheme) = (&PAIRS[size], &SCHEMES[scheme]);
        let mut signature = pair.sign(scheme, &message);
        prop_assert_ne!(pair.ours(scheme, &message, &signature), Some(false));
        let bit = bit.index(8 * signature.len());
        signature[bit / 8] ^= 1 << (bit % 8);
        prop_assert_ne!(pair.ours(scheme, &message, &signature), Some(true));
        prop_assert!(!pair.theirs(scheme, &message, &signature));
    }
}
