//! Verification of the proofs of RFC 6962 and of draft-ietf-plants-merkle-tree-certs, by the
//! algorithm of the draft, which contains those of RFC 9162, sections 2.1.3.2 and 2.1.4.2.

use std::ops::Range;

use crate::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::subtree::Subtree;

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
    /// The leaf is outside the subtree.
    #[error("leaf {0} is not in the subtree")]
    Leaf(u64),
    /// The subtree ends after the end of the tree.
    #[error("the subtree {0} is not in the tree")]
    Subtree(Subtree),
    /// The proof has too few or too many hashes for these sizes.
    #[error("the number of hashes in the proof, {0}, is too small or too large for these sizes")]
    Length(usize),
    /// The computed root differs from the given root.
    #[error("the proof does not match the root")]
    Root,
    /// The computed root of the older tree, or of the subtree, differs from the given root.
    #[error("the proof does not match the hash of the older tree or subtree")]
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
    verify_part(index..index + 1, leaf, size, root, proof)
}

/// Verifies that `leaf`, a leaf hash, has the index `index` of the tree in the subtree with this
/// hash.
pub fn verify_subtree_inclusion(
    leaf: &Hash,
    index: u64,
    subtree: Subtree,
    hash: &Hash,
    proof: &[Hash],
) -> Result<(), ProofError> {
    if !subtree.leaves().contains(&index) {
        return Err(ProofError::Leaf(index));
    }
    let index = index - subtree.start();
    verify_inclusion(leaf, index, subtree.size(), hash, proof)
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
    verify_subtree_consistency(
        Subtree::first(old_size),
        old_root,
        new_size,
        new_root,
        proof,
    )
}

/// Verifies that the tree of `size` leaves with this root contains the subtree with this hash.
pub fn verify_subtree_consistency(
    subtree: Subtree,
    hash: &Hash,
    size: u64,
    root: &Hash,
    proof: &[Hash],
) -> Result<(), ProofError> {
    if subtree.end() > size {
        return Err(ProofError::Subtree(subtree));
    }
    if subtree.size() > 0 {
        return verify_part(subtree.leaves(), hash, size, root, proof);
    }
    if !proof.is_empty() {
        return Err(ProofError::Length(proof.len()));
    }
    if *hash != EMPTY_ROOT {
        return Err(ProofError::OldRoot);
    }
    let possible = size > 0 || *root == EMPTY_ROOT;
    possible.then_some(()).ok_or(ProofError::Root)
}

/// Verifies that the leaves of a subtree, which is not empty and in the tree, are in the tree. This
/// is "Verifying a Subtree Consistency Proof" of draft-ietf-plants-merkle-tree-certs. A proof of
/// inclusion is the proof for the subtree of this leaf.
fn verify_part(
    part: Range<u64>,
    hash: &Hash,
    size: u64,
    root: &Hash,
    proof: &[Hash],
) -> Result<(), ProofError> {
    let mut row = Row {
        first: part.start,
        last: part.end - 1,
        end: size - 1,
    };
    row.start();
    // A part that is one node of the tree is omitted from the proof, because its hash is known.
    let (seed, path) = if row.first == row.last {
        (hash, proof)
    } else {
        proof.split_first().ok_or(ProofError::Length(0))?
    };
    let (mut old, mut new) = (*seed, *seed);
    for sibling in path {
        if row.end == 0 {
            return Err(ProofError::Length(proof.len()));
        }
        if row.last % 2 == 1 || row.last == row.end {
            if row.first < row.last {
                old = node_hash(sibling, &old);
            }
            new = node_hash(sibling, &new);
            // The next rows have no sibling of this node.
            while row.last.is_multiple_of(2) {
                row.up();
            }
        } else {
            new = node_hash(&new, sibling);
        }
        row.up();
    }
    if row.end != 0 {
        return Err(ProofError::Length(proof.len()));
    }
    if old != *hash {
        return Err(ProofError::OldRoot);
    }
    (new == *root).then_some(()).ok_or(ProofError::Root)
}

/// A row of the tree: the numbers of the first and the last node above the part, and of the last
/// node of the row.
struct Row {
    first: u64,
    last: u64,
    end: u64,
}

impl Row {
    /// Moves from the leaves to the row of the largest node that ends with the part.
    fn start(&mut self) {
        let whole = self.last == self.end;
        while self.first != self.last && (whole || self.last % 2 == 1) {
            self.up();
        }
    }

    fn up(&mut self) {
        self.first /= 2;
        self.last /= 2;
        self.end /= 2;
    }
}
