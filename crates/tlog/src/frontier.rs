//! The frontier: the roots of the perfect subtrees of a tree, one for each bit that is set in its
//! size.
//!
//! The frontier computes the root of a [`RightEdge`] in a different way, by a binary counter
//! without tiles. A log signs a root only if both agree.

use crate::edge::RightEdge;
use crate::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::tile::{MAX_LEVEL, MAX_TREE_SIZE};

/// The roots of the perfect subtrees of a tree, largest first.
///
/// # Examples
///
/// ```
/// use lucarne_tlog::{Frontier, leaf_hash, node_hash};
///
/// let (one, two) = (leaf_hash(b"one"), leaf_hash(b"two"));
/// let mut frontier = Frontier::new();
/// frontier.push(one);
/// frontier.push(two);
/// assert_eq!(frontier.root(), node_hash(&one, &two));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    subtrees: Vec<Hash>,
}

impl Frontier {
    /// Creates the frontier of the empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the frontier of the tree with this right edge. Each hash of a partial tile is the
    /// root of a perfect subtree.
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

    /// Creates the frontier of a tree of `size` leaves from the roots of its perfect subtrees;
    /// `None` if their number is wrong.
    #[must_use]
    pub fn from_subtrees(size: u64, subtrees: Vec<Hash>) -> Option<Self> {
        let whole = size <= MAX_TREE_SIZE && subtrees.len() == size.count_ones() as usize;
        whole.then_some(Self { size, subtrees })
    }

    /// Returns the roots of the perfect subtrees, largest first.
    #[must_use]
    pub fn subtrees(&self) -> &[Hash] {
        &self.subtrees
    }

    /// Returns the number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends a leaf by its hash.
    pub fn push(&mut self, leaf: Hash) {
        self.push_subtree(leaf, 0);
    }

    /// Appends a perfect subtree of 2^height leaves to a tree without smaller subtrees. This is an
    /// increment of a binary counter; each carry creates a node.
    fn push_subtree(&mut self, mut root: Hash, height: u32) {
        for _ in 0..(self.size >> height).trailing_ones() {
            if let Some(left) = self.subtrees.pop() {
                root = node_hash(&left, &root);
            }
        }
        self.subtrees.push(root);
        self.size += 1 << height;
    }

    /// Returns the Merkle tree hash (RFC 6962, section 2.1) by joining the subtrees from the
    /// smallest to the largest.
    #[must_use]
    pub fn root(&self) -> Hash {
        let right_to_left = self.subtrees.iter().rev().copied();
        right_to_left
            .reduce(|right, left| node_hash(&left, &right))
            .unwrap_or(EMPTY_ROOT)
    }
}
