//! Common code of the tree tests: the definitions of RFC 6962, and the ways in which a proof can be
//! wrong.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::ops::Range;

use lucarne_tlog::*;

/// A tree that can compute the hash of any of its perfect subtrees.
pub trait Tree {
    /// Returns the root of the leaves `index * 2^height..(index + 1) * 2^height`.
    fn perfect(&self, height: u32, index: u64) -> Hash;

    /// Returns MTH(D[range]) of RFC 6962, section 2.1. The range must start where a subtree of its
    /// size may start.
    fn root(&self, range: Range<u64>) -> Hash {
        let leaves = range.end - range.start;
        match leaves {
            0 => EMPTY_ROOT,
            _ if leaves.is_power_of_two() => self.perfect(leaves.ilog2(), range.start / leaves),
            _ => {
                let k = split(leaves);
                let left = self.root(range.start..range.start + k);
                node_hash(&left, &self.root(range.start + k..range.end))
            }
        }
    }

    /// Returns PATH(m, D[range]) of RFC 6962, section 2.1.1.
    fn path(&self, m: u64, range: Range<u64>) -> Vec<Hash> {
        if range.end - range.start == 1 {
            return Vec::new();
        }
        let k = split(range.end - range.start);
        let middle = range.start + k;
        let (mut path, sibling) = if m < k {
            (self.path(m, range.start..middle), middle..range.end)
        } else {
            (self.path(m - k, middle..range.end), range.start..middle)
        };
        path.push(self.root(sibling));
        path
    }

    /// Returns SUBPROOF(m, D[range], known) of RFC 6962, section 2.1.2.
    fn subproof(&self, m: u64, range: Range<u64>, known: bool) -> Vec<Hash> {
        let leaves = range.end - range.start;
        if m == leaves {
            return if known {
                vec![]
            } else {
                vec![self.root(range)]
            };
        }
        let k = split(leaves);
        let middle = range.start + k;
        let (mut proof, sibling) = if m <= k {
            (
                self.subproof(m, range.start..middle, known),
                middle..range.end,
            )
        } else {
            (
                self.subproof(m - k, middle..range.end, false),
                range.start..middle,
            )
        };
        proof.push(self.root(sibling));
        proof
    }

    /// Returns SUBTREE_SUBPROOF(start, end, D[range], known) of
    /// draft-ietf-plants-merkle-tree-certs, with indices of the whole tree.
    fn subtree_subproof(&self, part: Range<u64>, range: Range<u64>, known: bool) -> Vec<Hash> {
        if part == range {
            return if known {
                vec![]
            } else {
                vec![self.root(range)]
            };
        }
        let middle = range.start + split(range.end - range.start);
        let (left, right) = (range.start..middle, middle..range.end);
        let (mut proof, sibling) = if part.end <= middle {
            (self.subtree_subproof(part, left, known), right)
        } else if middle <= part.start {
            (self.subtree_subproof(part, right, known), left)
        } else {
            (self.subtree_subproof(middle..part.end, right, false), left)
        };
        proof.push(self.root(sibling));
        proof
    }

    /// Returns the bytes of a tile (C2SP tlog-tiles).
    fn tile(&self, tile: Tile) -> Vec<u8> {
        let Level::Hashes(level) = tile.level() else {
            panic!("no data tiles here");
        };
        let first = tile.index() * TILE_WIDTH;
        (first..first + u64::from(tile.width()))
            .flat_map(|entry| self.perfect(8 * u32::from(level), entry).0)
            .collect()
    }
}

/// Returns the largest power of two smaller than n.
fn split(n: u64) -> u64 {
    let mut k = 1;
    while 2 * k < n {
        k *= 2;
    }
    k
}

/// A tree in memory with distinct leaves and all perfect subtrees.
pub struct Distinct {
    rows: Vec<Vec<Hash>>,
}

impl Distinct {
    pub fn new(leaves: u64) -> Self {
        Self::of((0..leaves).map(|i| leaf_hash(&i.to_be_bytes())).collect())
    }

    pub fn of(leaves: Vec<Hash>) -> Self {
        let mut rows = vec![leaves];
        while rows.last().unwrap().len() > 1 {
            let below = rows.last().unwrap();
            rows.push(
                below
                    .chunks_exact(2)
                    .map(|pair| node_hash(&pair[0], &pair[1]))
                    .collect(),
            );
        }
        Self { rows }
    }

    pub fn leaves(&self) -> &[Hash] {
        &self.rows[0]
    }
}

impl Tree for Distinct {
    fn perfect(&self, height: u32, index: u64) -> Hash {
        self.rows[height as usize][index as usize]
    }
}

/// A tree of any size: all leaves are equal except for a few marked ones, so that only the subtrees
/// above a mark must be computed.
pub struct Marked {
    marks: std::collections::BTreeSet<u64>,
    plain: Vec<Hash>,
}

impl Marked {
    pub fn new(marks: impl IntoIterator<Item = u64>) -> Self {
        let mut plain = vec![leaf_hash(b"plain")];
        for height in 0..40 {
            plain.push(node_hash(&plain[height], &plain[height]));
        }
        Self {
            marks: marks.into_iter().collect(),
            plain,
        }
    }
}

impl Tree for Marked {
    fn perfect(&self, height: u32, index: u64) -> Hash {
        let start = index << height;
        if self
            .marks
            .range(start..start + (1 << height))
            .next()
            .is_none()
        {
            return self.plain[height as usize];
        }
        if height == 0 {
            return leaf_hash(&index.to_be_bytes());
        }
        node_hash(
            &self.perfect(height - 1, 2 * index),
            &self.perfect(height - 1, 2 * index + 1),
        )
    }
}

/// Returns a reader of a tree's tiles. The reader fails the test for a tile that was not announced,
/// or that the tree does not have.
pub fn reader<T: Tree>(
    tree: &T,
    size: u64,
    announced: Vec<Tile>,
) -> impl HashReader<Error = String> {
    move |tile: Tile| {
        let known = announced.contains(&tile) && tile.covered_by(size);
        known
            .then(|| tree.tile(tile))
            .ok_or_else(|| format!("{} was not announced", tile.path()))
    }
}

/// Returns every way to damage a proof by one hash.
pub fn damaged(proof: &[Hash]) -> Vec<Vec<Hash>> {
    let mut all = Vec::new();
    for at in 0..proof.len() {
        let mut flipped = proof.to_vec();
        flipped[at].0[at % 32] ^= 1 << (at % 8);
        all.push(flipped);

        let mut without = proof.to_vec();
        without.remove(at);
        all.push(without);

        let mut doubled = proof.to_vec();
        doubled.insert(at, proof[at]);
        all.push(doubled);

        if at > 0 && proof[at] != proof[at - 1] {
            let mut swapped = proof.to_vec();
            swapped.swap(at - 1, at);
            all.push(swapped);
        }
    }
    let mut longer = proof.to_vec();
    longer.push(EMPTY_ROOT);
    all.push(longer);
    all
}

/// Creates the inclusion proof from tiles, compares it with the definition, and verifies it.
pub fn check_inclusion<T: Tree>(tree: &T, index: u64, size: u64, root: &Hash) -> Vec<Hash> {
    let mut tiles = reader(tree, size, inclusion_tiles(index, size));
    let proof = inclusion_proof(index, size, &mut tiles).unwrap();
    assert_eq!(
        proof,
        tree.path(index, 0..size),
        "inclusion of {index} in {size}"
    );
    assert_eq!(
        verify_inclusion(&tree.perfect(0, index), index, size, root, &proof),
        Ok(())
    );
    proof
}

/// Creates, compares and verifies a consistency proof in the same way.
pub fn check_consistency<T: Tree>(
    tree: &T,
    (old, old_root): (u64, &Hash),
    (new, new_root): (u64, &Hash),
) -> Vec<Hash> {
    let mut tiles = reader(tree, new, consistency_tiles(old, new));
    let proof = consistency_proof(old, new, &mut tiles).unwrap();
    if old > 0 {
        assert_eq!(
            proof,
            tree.subproof(old, 0..new, true),
            "consistency of {old} with {new}"
        );
    }
    assert_eq!(
        verify_consistency(old, old_root, new, new_root, &proof),
        Ok(())
    );
    proof
}

/// Checks that no damaged inclusion proof, other leaf or other root passes.
pub fn refuse_wrong_inclusion(leaf: &Hash, index: u64, size: u64, root: &Hash, proof: &[Hash]) {
    for wrong in damaged(proof) {
        assert!(
            verify_inclusion(leaf, index, size, root, &wrong).is_err(),
            "{index} in {size}"
        );
    }
    let other = leaf_hash(b"other");
    assert!(verify_inclusion(&other, index, size, root, proof).is_err());
    assert!(verify_inclusion(leaf, index, size, &other, proof).is_err());
    assert!(verify_inclusion(leaf, size, size, root, proof).is_err());
}

/// Checks that no damaged consistency proof and no other root passes.
pub fn refuse_wrong_consistency(
    (old, old_root): (u64, &Hash),
    (new, new_root): (u64, &Hash),
    proof: &[Hash],
) {
    for wrong in damaged(proof) {
        assert!(
            verify_consistency(old, old_root, new, new_root, &wrong).is_err(),
            "{old} {new}"
        );
    }
    let other = leaf_hash(b"other");
    assert!(verify_consistency(old, &other, new, new_root, proof).is_err());
    if old > 0 {
        // Any tree extends the empty one: no proof depends on its root.
        assert!(verify_consistency(old, old_root, new, &other, proof).is_err());
    }
    if old < new {
        assert!(verify_consistency(new, new_root, old, old_root, proof).is_err());
    }
}
