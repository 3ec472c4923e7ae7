//! Tests with trees that are too large to build: random sizes up to 2^33 leaves, all equal except
//! for a few marked ones.

use crate::support::*;
use lucarne_tlog::*;
use proptest::prelude::*;

const LARGEST: u64 = 1 << 33;

/// Generates sizes of all magnitudes, many of them next to a power of two.
fn any_size() -> impl Strategy<Value = u64> {
    let beside = (0..=33u32, -2..=2i64)
        .prop_map(|(bits, off)| (1u64 << bits).saturating_add_signed(off).min(LARGEST));
    prop_oneof![0..=LARGEST, 0..100_000u64, beside]
}

/// Returns a tree with marks at random positions and around `near`, so that the neighbours of a
/// proof's path differ from it.
fn any_tree(near: u64, marks: Vec<u64>) -> Marked {
    let around = near.saturating_sub(3)..near + 3;
    Marked::new(marks.into_iter().chain(around).chain([0, LARGEST - 1]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn growth(
        old in any_size(),
        grow in 0..1500u64,
        marks in prop::collection::vec(0..LARGEST, 0..20),
    ) {
        let new = old + grow;
        let tree = any_tree(old, marks);
        let mut edge = RightEdge::load(old, |tile| Ok::<_, ()>(tree.tile(tile))).unwrap();
        let mut frontier = Frontier::from_right_edge(&edge);
        prop_assert_eq!(edge.root(), tree.root(0..old));
        prop_assert_eq!(frontier.root(), edge.root());

        let leaves: Vec<_> = (old..new).map(|leaf| tree.perfect(0, leaf)).collect();
        let written = edge.append(&leaves);
        leaves.iter().for_each(|leaf| frontier.push(*leaf));

        let wanted: Vec<_> = tiles_between(old, new).map(|tile| (tile, tree.tile(tile))).collect();
        prop_assert_eq!(written, wanted);
        prop_assert_eq!((edge.size(), edge.root()), (new, tree.root(0..new)));
        prop_assert_eq!((frontier.size(), frontier.root()), (new, edge.root()));
        prop_assert_eq!(Frontier::from_right_edge(&edge), frontier);
    }

    #[test]
    fn inclusion(
        size in any_size(),
        index: prop::sample::Index,
        marks in prop::collection::vec(0..LARGEST, 0..20),
    ) {
        let size = size.max(1);
        let index = index.index(size as usize) as u64;
        let tree = any_tree(index, marks);
        let root = tree.root(0..size);
        let proof = check_inclusion(&tree, index, size, &root);
        refuse_wrong_inclusion(&tree.perfect(0, index), index, size, &root, &proof);
    }

    #[test]
    fn consistency(
        a in any_size(),
        b in any_size(),
        marks in prop::collection::vec(0..LARGEST, 0..20),
    ) {
        let (old, new) = (a.min(b), a.max(b));
        let tree = any_tree(old, marks);
        let (old_root, new_root) = (tree.root(0..old), tree.root(0..new));
        let proof = check_consistency(&tree, (old, &old_root), (new, &new_root));
        refuse_wrong_consistency((old, &old_root), (new, &new_root), &proof);
    }
}

/// The largest possible tree has an edge, a root and proofs.
#[test]
fn largest_tree() {
    let tree = Marked::new([0, 1 << 39, MAX_TREE_SIZE - 1]);
    let root = tree.root(0..MAX_TREE_SIZE);
    let edge = RightEdge::load(MAX_TREE_SIZE, |tile| Ok::<_, ()>(tree.tile(tile))).unwrap();
    assert_eq!(edge.root(), root);
    assert_eq!(edge.partial(5), [root]);
    check_inclusion(&tree, MAX_TREE_SIZE - 1, MAX_TREE_SIZE, &root);
    let old = MAX_TREE_SIZE - 1;
    check_consistency(&tree, (old, &tree.root(0..old)), (MAX_TREE_SIZE, &root));

    let mut last = RightEdge::load(old, |tile| Ok::<_, ()>(tree.tile(tile))).unwrap();
    let tiles = last.append(&[tree.perfect(0, old)]);
    assert_eq!(last, edge);
    assert_eq!(tiles.len(), 6);
}
