//! The cost of each stage of a submission, for the usual body: a leaf and its intermediate, without
//! the root, about 2.7 kB of JSON. All stages except the verification of the leaf's signature have
//! a total budget of 4 µs.

#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use lucarne_ct::{
    Chain, ChainLimits, Entry, EntryKind, LogKey, Policy, Roots, TileLeaf, TileLeafRef, Validator,
};
use lucarne_mint::testing::Pki;

fn log() -> Validator {
    let (roots, _) = Roots::from_pem(Pki::shared().roots_pem().as_bytes());
    Validator::new(Arc::new(roots), Policy::default())
}

fn decode(body: &str) -> Chain {
    Chain::decode_json(body.as_bytes(), &ChainLimits::default()).unwrap()
}

fn accept(log: &Validator, chain: &Chain, kind: EntryKind) -> Entry {
    log.verify(log.examine(chain, kind, 0).unwrap()).unwrap()
}

/// Measures the steps from body to entry, by type of the issuer's key.
fn submission(c: &mut Criterion) {
    let pki = Pki::shared();
    let log = log();
    for (name, issuer) in [
        ("rsa2048", &pki.rsa),
        ("p256", &pki.p256),
        ("p384", &pki.p384),
    ] {
        let certificate = pki.certificate(issuer, "bench.example.test").unwrap();
        let precert = pki.precertificate(issuer, "bench.example.test").unwrap();
        let mut group = c.benchmark_group(name);
        for (label, kind, body) in [
            ("certificate", EntryKind::X509, certificate.to_json()),
            ("precertificate", EntryKind::Precert, precert.to_json()),
        ] {
            let chain = decode(&body);
            accept(&log, &chain, kind);
            group.bench_function(format!("{label} decode ({} B)", body.len()), |b| {
                b.iter(|| decode(black_box(&body)));
            });
            group.bench_function(format!("{label} examine"), |b| {
                b.iter(|| log.examine(black_box(&chain), kind, 0).unwrap());
            });
            group.bench_function(format!("{label} examine and verify"), |b| {
                b.iter(|| accept(&log, black_box(&chain), kind));
            });
        }
        group.finish();
    }
}

/// Measures the steps from entry to tile, tree and response.
fn logging(c: &mut Criterion) {
    let pki = Pki::shared();
    let log = log();
    let key = LogKey::from_seed(&[7; 32]).unwrap();
    let chain = pki.precertificate(&pki.rsa, "bench.example.test").unwrap();
    let entry = accept(&log, &decode(&chain.to_json()), EntryKind::Precert);
    let mut tile = Vec::new();
    TileLeaf::encode(1_767_225_600_000, &entry, 123_456, &mut tile);
    let sct = key
        .sign_sct(1_767_225_600_000, &entry.signed, 123_456)
        .unwrap();

    let mut group = c.benchmark_group("logging");
    let mut out = Vec::with_capacity(8192);
    group.bench_function(format!("TileLeaf encode ({} B)", tile.len()), |b| {
        b.iter(|| {
            out.clear();
            TileLeaf::encode(1_767_225_600_000, black_box(&entry), 123_456, &mut out);
        });
    });
    let mut leaf = Vec::with_capacity(8192);
    group.bench_function("TileLeaf parse and leaf hash", |b| {
        b.iter(|| {
            leaf.clear();
            let parsed = TileLeafRef::read(&mut black_box(&tile[..])).unwrap();
            parsed.merkle_tree_leaf(&mut leaf);
            lucarne_tlog::leaf_hash(&leaf)
        });
    });
    group.bench_function("SCT sign", |b| {
        b.iter(|| {
            key.sign_sct(1_767_225_600_000, black_box(&entry.signed), 123_456)
                .unwrap()
        });
    });
    group.bench_function("SCT JSON", |b| b.iter(|| black_box(&sct).to_json()));
    group.finish();
}

criterion_group!(benches, submission, logging);
criterion_main!(benches);
