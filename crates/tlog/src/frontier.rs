//! The frontier: the roots of the perfect subtrees that a tree is made of, one
//! for each bit that is set in its size.
//!
//! It gives the same root as [`RightEdge`] by another way, a binary counter
//! that never sees a tile. A log signs a root only when both agree.

use crate::edge::RightEdge;
use crate::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::tile::{MAX_LEVEL, MAX_TREE_SIZE};

/// The roots of a tree's perfect subtrees, the largest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    subtrees: Vec<Hash>,
}

impl Frontier {
    /// The frontier of the empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The frontier of the tree with this right edge. Each hash of a partial
    /// tile is the root of a perfect subtree.
    #[must_use]
    pub fn from_right_edge(edge: &RightEdge) -> Self {
        let mut frontier = Self::new();
        for level in (0..=MAX_LEVEL).rev() {
            for hash in edge.partial(level) {
                frontier.push_subtree(*hash, 8 * u32::from(level));
            }
        }
        frontier
    }

    /// The frontier of a tree of `size` leaves, from the roots of its perfect
    /// subtrees; `None` if there are more or fewer of them than it has.
    #[must_use]
    pub fn from_subtrees(size: u64, subtrees: Vec<Hash>) -> Option<Self> {
        let whole = size <= MAX_TREE_SIZE && subtrees.len() == size.count_ones() as usize;
        whole.then_some(Self { size, subtrees })
    }

    /// The roots of the perfect subtrees, the largest first.
    #[must_use]
    pub fn subtrees(&self) -> &[Hash] {
        &self.subtrees
    }

    /// The number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends a leaf by its hash.
    pub fn push(&mut self, leaf: Hash) {
        self.push_subtree(leaf, 0);
    }

    /// Appends a perfect subtree of 2^height leaves to a tree without smaller
    /// ones: adding one to a binary counter, where a carry is a node.
    fn push_subtree(&mut self, mut root: Hash, height: u32) {
        for _ in 0..(self.size >> height).trailing_ones() {
            if let Some(left) = self.subtrees.pop() {
                root = node_hash(&left, &root);
            }
        }
        self.subtrees.push(root);
        self.size += 1 << height;
    }

    /// The Merkle tree hash (RFC 6962 section 2.1): the subtrees joined from
    /// the smallest to the largest.
    #[must_use]
    pub fn root(&self) -> Hash {
        let right_to_left = self.subtrees.iter().rev().copied();
        right_to_left
            .reduce(|right, left| node_hash(&left, &right))
            .unwrap_or(EMPTY_ROOT)
    }
}
