//! Verification of the proofs of RFC 6962 by the algorithms of RFC 9162, sections 2.1.3.2 and
//! 2.1.4.2.

use crate::hash::{EMPTY_ROOT, Hash, node_hash};

/// The reasons why a proof is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The leaf is outside the tree.
    #[error("leaf {index} is not in a tree of size {size}")]
    Index {
        /// Index of the leaf.
        index: u64,
        /// Size of the tree.
        size: u64,
    },
    /// The newer tree is smaller than the older tree.
    #[error("a tree of size {old_size} cannot have shrunk to {new_size}")]
    Shrunk {
        /// Size of the older tree.
        old_size: u64,
        /// Size of the newer tree.
        new_size: u64,
    },
    /// The proof has too few or too many hashes for these sizes.
    #[error("the number of hashes in the proof, {0}, is too small or too large for these sizes")]
    Length(usize),
    /// The computed root differs from the given root.
    #[error("the proof does not match the root")]
    Root,
    /// The computed root of the older tree differs from the given root.
    #[error("the proof does not match the root of the older tree")]
    OldRoot,
}

/// Verifies that `leaf`, a leaf hash, has the index `index` in the tree of `size` leaves with this
/// root (RFC 6962, section 2.1.1).
pub fn verify_inclusion(
    leaf: &Hash,
    index: u64,
    size: u64,
    root: &Hash,
    proof: &[Hash],
) -> Result<(), ProofError> {
    if index >= size {
        return Err(ProofError::Index { index, size });
    }
    let mut climb = Climb {
        node: index,
        last: size - 1,
    };
    let mut hash = *leaf;
    for sibling in proof {
        hash = match climb.step() {
            None => return Err(ProofError::Length(proof.len())),
            Some(Side::Left) => node_hash(sibling, &hash),
            Some(Side::Right) => node_hash(&hash, sibling),
        };
    }
    if !climb.at_root() {
        return Err(ProofError::Length(proof.len()));
    }
    (hash == *root).then_some(()).ok_or(ProofError::Root)
}

/// Verifies that the tree of `new_size` leaves with `new_root` begins with the leaves of the tree
/// of `old_size` with `old_root` (RFC 6962, section 2.1.2).
///
/// The proof is empty between equal sizes, and from the empty tree.
pub fn verify_consistency(
    old_size: u64,
    old_root: &Hash,
    new_size: u64,
    new_root: &Hash,
    proof: &[Hash],
) -> Result<(), ProofError> {
    if old_size > new_size {
        return Err(ProofError::Shrunk { old_size, new_size });
    }
    if old_size == new_size || old_size == 0 {
        return verify_without_hashes(old_size, old_root, new_size, new_root, proof);
    }
    // An old tree that is one perfect subtree of the new tree is omitted from the proof, because
    // its root is known.
    let (seed, path) = if old_size.is_power_of_two() {
        (old_root, proof)
    } else {
        proof.split_first().ok_or(ProofError::Length(0))?
    };
    // Climb from the largest subtree that ends at the end of the old tree.
    let height = old_size.trailing_zeros();
    let mut climb = Climb {
        node: (old_size - 1) >> height,
        last: (new_size - 1) >> height,
    };
    let (mut old, mut new) = (*seed, *seed);
    for sibling in path {
        match climb.step() {
            None => return Err(ProofError::Length(proof.len())),
            Some(Side::Left) => {
                old = node_hash(sibling, &old);
                new = node_hash(sibling, &new);
            }
            Some(Side::Right) => new = node_hash(&new, sibling),
        }
    }
    if !climb.at_root() {
        return Err(ProofError::Length(proof.len()));
    }
    if old != *old_root {
        return Err(ProofError::OldRoot);
    }
    (new == *new_root).then_some(()).ok_or(ProofError::Root)
}

fn verify_without_hashes(
    old_size: u64,
    old_root: &Hash,
    new_size: u64,
    new_root: &Hash,
    proof: &[Hash],
) -> Result<(), ProofError> {
    if !proof.is_empty() {
        return Err(ProofError::Length(proof.len()));
    }
    if old_size == 0 && *old_root != EMPTY_ROOT {
        return Err(ProofError::OldRoot);
    }
    let same = old_size != new_size || old_root == new_root;
    same.then_some(()).ok_or(ProofError::Root)
}

/// The path from a node to the root: the number of the node in its row, and the number of the last
/// node of the row.
struct Climb {
    node: u64,
    last: u64,
}

/// The side of the node on which its sibling is.
enum Side {
    Left,
    Right,
}

impl Climb {
    fn at_root(&self) -> bool {
        self.last == 0
    }

    /// Moves up past rows without a sibling of the node. Returns the side of the sibling, and moves
    /// to the parent; `None` at the root.
    fn step(&mut self) -> Option<Side> {
        if self.at_root() {
            return None;
        }
        while self.node == self.last && self.node.is_multiple_of(2) {
            self.up();
        }
        let side = if self.node % 2 == 1 {
            Side::Left
        } else {
            Side::Right
        };
        self.up();
        Some(side)
    }

    fn up(&mut self) {
        self.node /= 2;
        self.last /= 2;
    }
}
