//! Compares the subtrees of every tree with up to 300 leaves with their definitions in
//! draft-ietf-plants-merkle-tree-certs, and all of them with the vectors of the draft.

use std::collections::HashMap;
use std::ops::Range;

use aws_lc_rs::digest::{Context, SHA256};
use lucarne_tlog::*;

use crate::support::*;

const SIZES: u64 = 300;

/// All subtrees of a tree, in the order of the draft's vectors.
fn subtrees(size: u64) -> impl Iterator<Item = Subtree> {
    (0..=size).flat_map(|end| (0..=end).filter_map(move |start| Subtree::new(start, end)))
}

/// A tree that remembers the hash of each range.
struct Remembered {
    tree: Distinct,
    roots: HashMap<Range<u64>, Hash>,
}

impl Remembered {
    fn new(size: u64) -> Self {
        let tree = Distinct::new(size);
        let ranges = subtrees(size).map(Subtree::leaves);
        let roots = ranges.map(|range| (range.clone(), tree.root(range)));
        let roots = roots.collect();
        Self { tree, roots }
    }
}

impl Tree for Remembered {
    fn perfect(&self, height: u32, index: u64) -> Hash {
        self.tree.perfect(height, index)
    }

    fn root(&self, range: Range<u64>) -> Hash {
        self.roots[&range]
    }
}

fn published(tree: &impl Tree) -> impl HashReader<Error = ()> {
    |tile: Tile| Ok(tree.tile(tile))
}

#[test]
fn hashes_and_proofs_of_every_subtree() {
    let tree = Remembered::new(SIZES);
    for size in 0..=SIZES {
        let root = tree.root(0..size);
        for subtree in subtrees(size) {
            let hash = tree.root(subtree.leaves());
            let proof = match subtree.size() {
                0 => vec![],
                _ => tree.subtree_subproof(subtree.leaves(), 0..size, true),
            };
            let verified = verify_subtree_consistency(subtree, &hash, size, &root, &proof);
            assert_eq!(verified, Ok(()), "{subtree} in {size}");
            let mut tiles = published(&tree);
            let root = subtree_root(subtree, size, &mut tiles);
            assert_eq!(root.unwrap(), hash, "{subtree} in {size}");
            let made = subtree_consistency_proof(subtree, size, &mut tiles);
            assert_eq!(made.unwrap(), proof, "{subtree} in {size}");
        }
    }
}

#[test]
fn wrong_consistency_proofs_are_refused() {
    let tree = Remembered::new(70);
    for size in (0..40).chain([63, 64, 65, 70]) {
        let root = tree.root(0..size);
        for subtree in subtrees(size) {
            let hash = tree.root(subtree.leaves());
            let mut tiles = published(&tree);
            let proof = subtree_consistency_proof(subtree, size, &mut tiles).unwrap();
            let refused = |hash: &Hash, root: &Hash, proof: &[Hash]| {
                let verified = verify_subtree_consistency(subtree, hash, size, root, proof);
                assert!(verified.is_err(), "{subtree} in {size}");
            };
            for wrong in damaged(&proof) {
                refused(&hash, &root, &wrong);
            }
            let other = leaf_hash(b"other");
            refused(&other, &root, &proof);
            if subtree.size() > 0 {
                refused(&hash, &other, &proof);
            }
        }
    }
}

#[test]
fn inclusion_proofs_of_every_subtree() {
    let tree = Remembered::new(SIZES);
    let mut tiles = published(&tree);
    for subtree in subtrees(SIZES) {
        let hash = tree.root(subtree.leaves());
        for index in subtree.leaves() {
            let leaf = tree.perfect(0, index);
            let proof = subtree_inclusion_proof(index, subtree, SIZES, &mut tiles).unwrap();
            let verify = |index: u64, proof: &[Hash]| {
                verify_subtree_inclusion(&leaf, index, subtree, &hash, proof)
            };
            assert_eq!(verify(index, &proof), Ok(()), "{index} in {subtree}");
            if subtree.end() > 260 && subtree.size() < 40 {
                for wrong in damaged(&proof) {
                    assert!(verify(index, &wrong).is_err(), "{index} in {subtree}");
                }
                for wrong in subtree.start().saturating_sub(1)..=subtree.end() {
                    assert_eq!(verify(wrong, &proof).is_ok(), wrong == index);
                }
            }
        }
    }
}

/// The accumulated vectors of draft-ietf-plants-merkle-tree-certs, "Subtree Test Vectors": SHA-256
/// of one line for each input, for all trees with up to 130 leaves.
#[test]
fn vectors_of_the_draft() {
    let tree = Distinct::of((0..=129u8).map(|leaf| leaf_hash(&[leaf])).collect());
    let mut tiles = published(&tree);
    let [mut hashes, mut inclusion, mut consistency, mut covering] =
        [(); 4].map(|()| Context::new(&SHA256));
    let line = |context: &mut Context, start: String, proof: &[Hash]| {
        let hashes: String = proof.iter().map(|hash| format!(" {hash:?}")).collect();
        context.update(format!("{start}{hashes}\n").as_bytes());
    };
    for subtree in subtrees(130) {
        let root = subtree_root(subtree, 130, &mut tiles).unwrap();
        line(&mut hashes, subtree.to_string(), &[root]);
        for index in subtree.leaves() {
            let proof = subtree_inclusion_proof(index, subtree, 130, &mut tiles).unwrap();
            line(&mut inclusion, format!("{index} {subtree}"), &proof);
        }
    }
    for size in 0..=130 {
        for subtree in subtrees(size) {
            let proof = subtree_consistency_proof(subtree, size, &mut tiles).unwrap();
            line(&mut consistency, format!("{subtree} {size}"), &proof);
        }
        for start in 0..=size {
            let (left, right) = Subtree::covering(start, size).unwrap();
            line(&mut covering, format!("{left} {right}"), &[]);
        }
    }
    let digest = |context: Context| hex(context.finish().as_ref());
    assert_eq!(
        [hashes, inclusion, consistency, covering].map(digest),
        [
            "b82806ad4265bb151c1119c0f4db437bb4d1a1f887b3a7fba1cd4ebf552e3e81",
            "ac2a8f989e44d99e399db448050ff5f19757df53cfb716aa81015d3955d8163f",
            "10fa99b37bf9bf9ffa26b412fbd98bd75363256d0b75d61bc4538b9c9c5a0a74",
            "7fd9c8b926e9d2b5cf831560e8ce295a5ef97ad5c5ede4ea0dea28a8c8fc8bb0",
        ]
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn ranges_outside_the_tree_are_refused() {
    let tree = Distinct::new(13);
    let mut tiles = published(&tree);
    let subtree = Subtree::new(8, 13).unwrap();
    let (hash, root) = (tree.root(8..13), tree.root(0..12));
    assert!(subtree_root(subtree, 12, &mut tiles).is_err());
    assert!(subtree_consistency_proof(subtree, 12, &mut tiles).is_err());
    assert!(subtree_inclusion_proof(8, subtree, 12, &mut tiles).is_err());
    assert!(subtree_inclusion_proof(7, subtree, 13, &mut tiles).is_err());
    assert!(subtree_inclusion_proof(13, subtree, 13, &mut tiles).is_err());
    assert_eq!(
        verify_subtree_consistency(subtree, &hash, 12, &root, &[]),
        Err(ProofError::Subtree(subtree))
    );
    for index in [0, 7, 13, u64::MAX] {
        assert_eq!(
            verify_subtree_inclusion(&hash, index, subtree, &hash, &[]),
            Err(ProofError::Leaf(index))
        );
    }
    // The empty tree has one root.
    let empty = Subtree::first(0);
    assert_eq!(
        verify_subtree_consistency(empty, &EMPTY_ROOT, 0, &root, &[]),
        Err(ProofError::Root)
    );
}
