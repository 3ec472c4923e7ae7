//! Measures verification by a prepared key, compared with aws-lc-rs and a parsed key.

use std::hint::black_box;

use aws_lc_rs::digest::{self, Algorithm, SHA256, SHA384};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature as aws;
use aws_lc_rs::signature::KeyPair;
use criterion::{Criterion, criterion_group, criterion_main};
use lucarne_ecdsa::{Claim, KnownKey, accept_all};

/// Approximate length of a certificate.
const MESSAGE: [u8; 1200] = [7; 1200];

fn verify(criterion: &mut Criterion) {
    curve(
        criterion,
        "P-256",
        &aws::ECDSA_P256_SHA256_ASN1_SIGNING,
        &aws::ECDSA_P256_SHA256_ASN1,
        &SHA256,
        KnownKey::p256,
    );
    curve(
        criterion,
        "P-256, alone",
        &aws::ECDSA_P256_SHA256_ASN1_SIGNING,
        &aws::ECDSA_P256_SHA256_ASN1,
        &SHA256,
        KnownKey::p256_alone,
    );
    curve(
        criterion,
        "P-384",
        &aws::ECDSA_P384_SHA384_ASN1_SIGNING,
        &aws::ECDSA_P384_SHA384_ASN1,
        &SHA384,
        KnownKey::p384,
    );
}

fn curve(
    criterion: &mut Criterion,
    name: &str,
    signing: &'static aws::EcdsaSigningAlgorithm,
    verification: &'static dyn aws::VerificationAlgorithm,
    hash: &'static Algorithm,
    known: fn(&[u8]) -> Option<KnownKey>,
) {
    let pair = aws::EcdsaKeyPair::generate(signing).expect("a key");
    // Different signatures, because a processor learns the branches of a single one.
    let rng = SystemRandom::new();
    let sign = |_| pair.sign(&rng, &MESSAGE).expect("signed");
    let signatures: Vec<_> = (0..500).map(sign).collect();
    let mut each = signatures.iter().cycle();
    let mut signature = || each.next().expect("there are some").as_ref();
    let point = pair.public_key().as_ref();
    let parsed = aws::ParsedPublicKey::new(verification, point).expect("a point");
    let known_key = known(point).expect("a point");

    let mut group = criterion.benchmark_group(name);
    group.bench_function("aws-lc-rs", |bencher| {
        bencher.iter(|| parsed.verify_sig(black_box(&MESSAGE), signature()));
    });
    group.bench_function("known key", |bencher| {
        bencher.iter(|| {
            let digest = digest::digest(hash, black_box(&MESSAGE));
            assert!(known_key.accepts(digest.as_ref(), signature()));
        });
    });
    let digests_and_signatures: Vec<_> = signatures
        .iter()
        .map(|signature| (digest::digest(hash, &MESSAGE), signature.as_ref()))
        .collect();
    for count in [1, 2, 3, 4, 8] {
        group.bench_function(format!("{count} together"), |bencher| {
            let mut places = (0..digests_and_signatures.len()).cycle();
            bencher.iter(|| {
                let claim = |place: usize| Claim {
                    key: &known_key,
                    digest: digests_and_signatures[place].0.as_ref(),
                    signature: digests_and_signatures[place].1,
                };
                let claims: Vec<_> = places.by_ref().take(count).map(claim).collect();
                assert_eq!(accept_all(&claims), vec![true; count]);
            });
        });
    }
    group.bench_function("making a known key", |bencher| {
        bencher.iter(|| known(black_box(point)));
    });
    group.finish();
}

criterion_group!(benches, verify);
criterion_main!(benches);
