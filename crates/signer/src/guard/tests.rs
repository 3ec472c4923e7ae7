use lucarne_tlog::{RightEdge, Tile, consistency_proof, inclusion_proof};
use proptest::prelude::*;
use std::collections::HashMap;

use super::*;

const NOW: u64 = 1_800_000_000_000;

/// A growing tree with its tiles.
#[derive(Clone, Default)]
struct Grown {
    edge: RightEdge,
    tiles: HashMap<Tile, Vec<u8>>,
    leaves: Vec<Vec<u8>>,
    frontier: Frontier,
}

impl Grown {
    fn grow(&mut self, count: u64, salt: u8) {
        for _ in 0..count {
            let certificate = bytes::Bytes::from(vec![salt; 40]);
            let signed = lucarne_ct::SignedEntry::X509 { certificate };
            let mut leaf = Vec::new();
            let index = self.leaves.len() as u64;
            lucarne_ct::merkle_tree_leaf(NOW, &signed, index, &mut leaf);
            let hash = leaf_hash(&leaf);
            self.tiles.extend(self.edge.append(&[hash]));
            self.frontier.push(hash);
            self.leaves.push(leaf);
        }
    }

    fn head(&self, timestamp_ms: u64) -> Head {
        Head {
            size: self.edge.size(),
            root: self.edge.root(),
            timestamp_ms,
        }
    }

    fn read(&self) -> impl FnMut(Tile) -> Result<Vec<u8>, &'static str> {
        |tile| self.tiles.get(&tile).cloned().ok_or("no such tile")
    }

    fn proof(&self, from: u64) -> Vec<Hash> {
        consistency_proof(from, self.edge.size(), &mut self.read()).unwrap()
    }
}

fn grown(count: u64, salt: u8) -> Grown {
    let mut tree = Grown::default();
    tree.grow(count, salt);
    tree
}

#[test]
fn a_new_log_begins_empty() {
    let guard = Guard::new(None);
    let refused = guard.may_sign(grown(3, 1).head(NOW), &[], NOW);
    assert!(matches!(refused, Err(Refusal::NotNew { .. })));
    let head = Head {
        size: 0,
        root: EMPTY_ROOT,
        timestamp_ms: NOW,
    };
    guard.may_sign(head, &[], NOW).unwrap();
}

#[test]
fn shrinking_and_forking_are_refused() {
    let (long, fork) = (grown(7, 1), grown(7, 2));
    let mut short = grown(5, 1);
    let mut guard = Guard::new(None);
    guard.signed(short.head(NOW));
    guard
        .may_sign(long.head(NOW + 1), &long.proof(5), NOW)
        .unwrap();
    guard.signed(long.head(NOW + 1));
    let refused = |tree: &Grown, proof: &[Hash]| guard.may_sign(tree.head(NOW + 2), proof, NOW);
    assert!(matches!(refused(&short, &[]), Err(Refusal::Shrunk { .. })));
    assert!(matches!(refused(&fork, &[]), Err(Refusal::Forked { .. })));
    refused(&long, &[]).unwrap();
    // A longer tree whose first seven leaves differ, with each available proof.
    short.grow(10, 3);
    for proof in [short.proof(5), short.proof(7), Vec::new()] {
        let refused = refused(&short, &proof);
        assert!(matches!(refused, Err(Refusal::Inconsistent { .. })));
    }
}

#[test]
fn timestamps_neither_go_back_nor_ahead() {
    let tree = grown(3, 1);
    let mut guard = Guard::new(None);
    guard.signed(tree.head(NOW));
    let at = |timestamp| guard.may_sign(tree.head(timestamp), &[], NOW);
    for earlier in [NOW, NOW - 1, 0] {
        assert!(matches!(at(earlier), Err(Refusal::Earlier { .. })));
    }
    assert_eq!(
        at(NOW - 1).unwrap_err().to_string(),
        "requested the timestamp 2027-01-15T07:59:59.999Z, after 2027-01-15T08:00:00.000Z was \
         signed: timestamps never go back"
    );
    at(NOW + 1).unwrap();
    at(NOW + AHEAD_MS).unwrap();
    for ahead in [NOW + AHEAD_MS + 1, u64::MAX] {
        assert!(matches!(at(ahead), Err(Refusal::Ahead { .. })));
        assert!(at(ahead).unwrap_err().to_string().contains("ahead"));
    }
}

#[test]
fn heads_are_remembered_for_a_while() {
    let mut guard = Guard::new(None);
    for size in 0..RECENT as u64 + 10 {
        let head = Head {
            size,
            root: Hash([size as u8; 32]),
            timestamp_ms: size,
        };
        guard.signed(head);
        guard.signed(head);
    }
    assert_eq!(guard.root(9), None);
    assert_eq!(guard.root(10), Some(Hash([10; 32])));
}

#[test]
fn only_leaves_of_the_tree_are_promised() {
    let before = grown(5, 1);
    let mut tree = before.clone();
    tree.grow(4, 2);
    let root = tree.edge.root();
    let mut leaves: Vec<Leaf<'_>> = tree.leaves[5..]
        .iter()
        .map(|leaf| Leaf::Whole(leaf))
        .collect();
    let promised = included(&root, before.frontier.clone(), &leaves).unwrap();
    assert_eq!(promised.len(), 4);
    // Some leaves are given by their hashes only.
    leaves[1] = Leaf::Hash(leaf_hash(&tree.leaves[6]));
    let promised = included(&root, before.frontier.clone(), &leaves).unwrap();
    assert_eq!(
        promised.iter().map(|leaf| leaf.index).collect::<Vec<_>>(),
        [5, 7, 8]
    );

    // Another entry at a position, and an entry at another position.
    let other = grown(9, 3);
    leaves[2] = Leaf::Whole(&other.leaves[7]);
    let refused = included(&root, before.frontier.clone(), &leaves);
    assert!(matches!(refused, Err(Refusal::NotIncluded { .. })));
    leaves[2] = Leaf::Whole(&tree.leaves[6]);
    let refused = included(&root, before.frontier.clone(), &leaves);
    assert!(matches!(refused, Err(Refusal::Place { .. })));
    // A tree head in place of a leaf.
    leaves[2] = Leaf::Whole(&[0, 1, 0, 0]);
    let refused = included(&root, before.frontier.clone(), &leaves);
    assert!(matches!(refused, Err(Refusal::Leaf(_))));
}

proptest! {
    /// Every extension of the tree is signed, and every other tree of the same sizes is refused.
    #[test]
    fn only_one_history_is_signed(steps in prop::collection::vec(0..40u64, 1..20), fork in 0..20usize) {
        let mut tree = Grown::default();
        let mut guard = Guard::new(Some(tree.head(NOW - 1)));
        for (at, step) in steps.iter().enumerate() {
            let from = tree.edge.size();
            let time = NOW + at as u64;
            let mut forked = tree.clone();
            tree.grow(*step, 1);
            guard.may_sign(tree.head(time), &tree.proof(from), NOW).unwrap();
            guard.signed(tree.head(time));
            if at == fork && *step > 0 {
                forked.grow(*step, 2);
                prop_assert!(guard.may_sign(forked.head(time + 1), &[], NOW).is_err());
                forked.grow(5, 1);
                for proof in [forked.proof(from), forked.proof(from + step), tree.proof(from)] {
                    prop_assert!(guard.may_sign(forked.head(time + 1), &proof, NOW).is_err());
                }
            }
        }
    }

    #[test]
    fn each_leaf_is_promised_in_its_place_alone(size in 1..300u64, index: prop::sample::Index) {
        let tree = grown(size, 1);
        let index = index.index(size as usize) as u64;
        let root = tree.edge.root();
        let proof = inclusion_proof(index, size, &mut tree.read()).unwrap();
        let leaf = &tree.leaves[index as usize];
        included_alone((size, &root), index, leaf, &proof).unwrap();
        prop_assert!(included_alone((size, &root), index + 1, leaf, &proof).is_err());
        let mut other = leaf.clone();
        *other.last_mut().unwrap() ^= 1;
        prop_assert!(included_alone((size, &root), index, &other, &proof).is_err());
        let mut later = leaf.clone();
        later[9] ^= 1;
        prop_assert!(included_alone((size, &root), index, &later, &proof).is_err());
    }
}
