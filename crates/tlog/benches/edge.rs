//! Measures the cost of a round in the tree: appending its leaves and computing the root.

#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use lucarne_tlog::{Frontier, Hash, RightEdge, leaf_hash, node_hash};

/// Returns a tree of some millions of equal leaves, with partial tiles on all levels.
fn ragged_edge() -> RightEdge {
    let mut level_hash = leaf_hash(b"leaf");
    let by_level: Vec<Hash> = (0..6)
        .map(|_| {
            let this = level_hash;
            (0..8).for_each(|_| level_hash = node_hash(&level_hash, &level_hash));
            this
        })
        .collect();
    RightEdge::load(7_654_321, |tile| {
        let lucarne_tlog::Level::Hashes(level) = tile.level() else {
            return Err("a data tile");
        };
        Ok(by_level[usize::from(level)]
            .0
            .repeat(usize::from(tile.width())))
    })
    .expect("a synthetic tree")
}

fn append_and_root(c: &mut Criterion) {
    let edge = ragged_edge();
    let mut group = c.benchmark_group("append+root");
    for count in [256u64, 1000] {
        let leaves: Vec<Hash> = (0..count).map(|i| leaf_hash(&i.to_be_bytes())).collect();
        group.throughput(Throughput::Elements(count));
        group.bench_function(format!("right edge, {count} leaves"), |b| {
            b.iter_batched_ref(
                || edge.clone(),
                |edge| {
                    let tiles = edge.append(black_box(&leaves));
                    (tiles, edge.root())
                },
                BatchSize::SmallInput,
            );
        });
        let frontier = Frontier::from_right_edge(&edge);
        group.bench_function(format!("frontier, {count} leaves"), |b| {
            b.iter_batched_ref(
                || frontier.clone(),
                |frontier| {
                    black_box(&leaves)
                        .iter()
                        .for_each(|leaf| frontier.push(*leaf));
                    frontier.root()
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn hashes(c: &mut Criterion) {
    let mut group = c.benchmark_group("hash");
    let (left, right) = (leaf_hash(b"left"), leaf_hash(b"right"));
    group.bench_function("node", |b| b.iter(|| node_hash(black_box(&left), &right)));
    for length in [100usize, 1500, 5000] {
        let leaf = vec![7; length];
        group.bench_function(format!("leaf of {length} bytes"), |b| {
            b.iter(|| leaf_hash(black_box(&leaf)));
        });
    }
    group.bench_function("root of a ragged edge", |b| {
        let edge = ragged_edge();
        b.iter(|| black_box(&edge).root());
    });
    group.finish();
}

criterion_group!(benches, append_and_root, hashes);
criterion_main!(benches);
