//! Measures verification by a prepared key, compared with aws-lc-rs and a parsed key.

use std::hint::black_box;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature as aws;
use aws_lc_rs::signature::KeyPair as _;
use criterion::{Criterion, criterion_group, criterion_main};
use lucarne_rsa::{Hash, KnownKey};

fn verify(criterion: &mut Criterion) {
    let sizes = [
        ("RSA-2048", KeySize::Rsa2048),
        ("RSA-3072", KeySize::Rsa3072),
        ("RSA-4096", KeySize::Rsa4096),
    ];
    for (name, size) in sizes {
        let pair = aws::RsaKeyPair::generate(size).expect("a key");
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(
            &aws::RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            b"message",
            &mut signature,
        )
        .expect("a signature");
        let digest = digest(&SHA256, b"message");
        let public = pair.public_key();
        let mut group = criterion.benchmark_group(name);
        let theirs = aws::ParsedPublicKey::new(&aws::RSA_PKCS1_2048_8192_SHA256, public.as_ref())
            .expect("a public key");
        group.bench_function("aws-lc", |bencher| {
            bencher.iter(|| theirs.verify_digest_sig(black_box(&digest), black_box(&signature)));
        });
        let Some(key) = KnownKey::new(public.as_ref()) else {
            eprintln!("{name}: this processor has no AVX-512 IFMA");
            continue;
        };
        group.bench_function("known", |bencher| {
            bencher.iter(|| {
                key.accepts(
                    Hash::Sha256,
                    black_box(digest.as_ref()),
                    black_box(&signature),
                )
            });
        });
        group.bench_function("to know it", |bencher| {
            bencher.iter(|| KnownKey::new(black_box(public.as_ref())));
        });
    }
}

criterion_group!(benches, verify);
criterion_main!(benches);
