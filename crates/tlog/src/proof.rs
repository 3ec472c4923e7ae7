//! Proofs of inclusion and consistency, of trees (RFC 6962, sections 2.1.1 and 2.1.2) and of
//! subtrees (draft-ietf-plants-merkle-tree-certs), created from tiles and verified from hashes
//! alone.
//!
//! Every hash of a proof is the root of a range of leaves. A range consists of perfect subtrees,
//! and each subtree is in one tile.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::edge::{TileError, halve_to_root, hashes_of};
use crate::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::subtree::Subtree;
use crate::tile::{Level, MAX_TREE_SIZE, Tile};

/// The source of the hash tiles.
///
/// Closures implement this trait. To fetch tiles asynchronously, first fetch the tiles that
/// [`inclusion_tiles`] or [`consistency_tiles`] return, and then read from the fetched tiles.
pub trait HashReader {
    /// The error of a read.
    type Error;

    /// Returns the bytes of a hash tile of exactly this width: 32 for each hash.
    fn read(&mut self, tile: Tile) -> Result<Vec<u8>, Self::Error>;
}

impl<F, E> HashReader for F
where
    F: FnMut(Tile) -> Result<Vec<u8>, E>,
{
    type Error = E;

    fn read(&mut self, tile: Tile) -> Result<Vec<u8>, E> {
        self(tile)
    }
}

/// The reasons why a proof could not be created.
#[derive(Debug, thiserror::Error)]
pub enum MakeProofError<E> {
    /// The leaf is outside the tree or subtree, the older tree or the subtree is not in the newer
    /// tree, or the tree is larger than [`MAX_TREE_SIZE`].
    #[error(
        "leaf or size {0} is outside the tree of size {1}, or the tree has more than 2^40 leaves"
    )]
    Range(u64, u64),
    /// A tile could not be read.
    #[error(transparent)]
    Tile(#[from] TileError<E>),
}

/// Returns the proof that leaf `index` is in the tree of `size` leaves, nearest sibling first:
/// `PATH(m, D[n])` of RFC 6962, section 2.1.1.
pub fn inclusion_proof<R: HashReader>(
    index: u64,
    size: u64,
    reader: &mut R,
) -> Result<Vec<Hash>, MakeProofError<R::Error>> {
    subtree_inclusion_proof(index, Subtree::first(size), size, reader)
}

/// Returns the proof that leaf `index` is in a subtree of the tree of `size` leaves, nearest
/// sibling first.
pub fn subtree_inclusion_proof<R: HashReader>(
    index: u64,
    subtree: Subtree,
    size: u64,
    reader: &mut R,
) -> Result<Vec<Hash>, MakeProofError<R::Error>> {
    if !subtree.leaves().contains(&index) {
        return Err(MakeProofError::Range(index, subtree.end()));
    }
    prove(index..index + 1, subtree.leaves(), size, reader)
}

/// Returns the proof that the tree of `new_size` leaves begins with the tree of `old_size` leaves:
/// `PROOF(m, D[n])` of RFC 6962, section 2.1.2. The RFC does not define the proof for an empty
/// older tree; here, the proof is empty.
pub fn consistency_proof<R: HashReader>(
    old_size: u64,
    new_size: u64,
    reader: &mut R,
) -> Result<Vec<Hash>, MakeProofError<R::Error>> {
    subtree_consistency_proof(Subtree::first(old_size), new_size, reader)
}

/// Returns the proof that the tree of `size` leaves contains a subtree: `SUBTREE_PROOF(start, end,
/// D_n)` of draft-ietf-plants-merkle-tree-certs.
pub fn subtree_consistency_proof<R: HashReader>(
    subtree: Subtree,
    size: u64,
    reader: &mut R,
) -> Result<Vec<Hash>, MakeProofError<R::Error>> {
    prove(subtree.leaves(), 0..size, size, reader)
}

/// Returns the Merkle tree hash of the first `size` leaves (RFC 6962, section 2.1).
pub fn tree_root<R: HashReader>(
    size: u64,
    reader: &mut R,
) -> Result<Hash, MakeProofError<R::Error>> {
    subtree_root(Subtree::first(size), size, reader)
}

/// Returns the hash of a subtree of the tree of `size` leaves.
pub fn subtree_root<R: HashReader>(
    subtree: Subtree,
    size: u64,
    reader: &mut R,
) -> Result<Hash, MakeProofError<R::Error>> {
    check(&subtree.leaves(), size)?;
    let roots = roots_of(std::slice::from_ref(&subtree.leaves()), size, reader)?;
    Ok(roots[0])
}

/// Returns the tiles that [`inclusion_proof`] reads; none for a leaf outside the tree.
#[must_use]
pub fn inclusion_tiles(index: u64, size: u64) -> Vec<Tile> {
    tiles_of(&proof_ranges(index..index.saturating_add(1), 0..size), size)
}

/// Returns the tiles that [`consistency_proof`] reads.
#[must_use]
pub fn consistency_tiles(old_size: u64, new_size: u64) -> Vec<Tile> {
    subtree_consistency_tiles(Subtree::first(old_size), new_size)
}

/// Returns the tiles that [`subtree_consistency_proof`] reads.
#[must_use]
pub fn subtree_consistency_tiles(subtree: Subtree, size: u64) -> Vec<Tile> {
    tiles_of(&proof_ranges(subtree.leaves(), 0..size), size)
}

/// Returns the proof that the leaves `part` are in the subtree `whole` of the tree of `size`
/// leaves.
fn prove<R: HashReader>(
    part: Range<u64>,
    whole: Range<u64>,
    size: u64,
    reader: &mut R,
) -> Result<Vec<Hash>, MakeProofError<R::Error>> {
    check(&part, size)?;
    check(&whole, size)?;
    roots_of(&proof_ranges(part, whole), size, reader)
}

fn check<E>(part: &Range<u64>, size: u64) -> Result<(), MakeProofError<E>> {
    if part.end > size || size > MAX_TREE_SIZE {
        return Err(MakeProofError::Range(part.end, size));
    }
    Ok(())
}

/// Returns the ranges of leaves whose roots prove that the subtree `part` is in the subtree
/// `whole`. This is `SUBTREE_PROOF` of draft-ietf-plants-merkle-tree-certs, and therefore `PATH` of
/// RFC 6962 for a part of one leaf, and `PROOF` for a part that begins with the first leaf.
fn proof_ranges(mut part: Range<u64>, mut whole: Range<u64>) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    if part.is_empty() || part.start < whole.start || part.end > whole.end {
        return ranges;
    }
    let known_start = part.start;
    while part != whole {
        let middle = split(&whole);
        if part.end <= middle {
            ranges.push(middle..whole.end);
            whole.end = middle;
        } else {
            ranges.push(whole.start..middle);
            whole.start = middle;
            part.start = part.start.max(middle);
        }
    }
    // The verifier knows the hash of the whole part, which is omitted.
    if part.start > known_start {
        ranges.push(whole);
    }
    ranges.reverse();
    ranges
}

/// Returns the leaf at which a tree of at least two leaves is split: after the largest power of two
/// smaller than its size (RFC 6962, section 2.1).
fn split(tree: &Range<u64>) -> u64 {
    tree.start + (1 << (tree.end - tree.start - 1).ilog2())
}

/// A perfect subtree of 2^height leaves.
#[derive(Clone, Copy)]
struct Perfect {
    start: u64,
    height: u32,
}

impl Perfect {
    /// Returns the perfect subtrees of a range, largest and leftmost first.
    fn of_range(range: &Range<u64>) -> impl Iterator<Item = Self> {
        let mut rest = range.clone();
        std::iter::from_fn(move || {
            let height = (rest.end - rest.start).checked_ilog2()?;
            let subtree = Self {
                start: rest.start,
                height,
            };
            rest.start += 1 << height;
            Some(subtree)
        })
    }

    /// Returns the tile of the subtree in the tree of `size` leaves, and its range of hashes in
    /// that tile.
    fn place(self, size: u64) -> Option<(Tile, Range<usize>)> {
        let level = Level::Hashes(u8::try_from(self.height / 8).ok()?);
        let entry = self.start / level.entry_leaves();
        let first = usize::try_from(entry % 256).ok()?;
        let tile = Tile::widest(level, entry / 256, size)?;
        Some((tile, first..first + (1 << (self.height % 8))))
    }
}

fn tiles_of(ranges: &[Range<u64>], size: u64) -> Vec<Tile> {
    let subtrees = ranges.iter().flat_map(Perfect::of_range);
    let mut tiles: Vec<_> = subtrees.filter_map(|s| Some(s.place(size)?.0)).collect();
    tiles.sort_unstable();
    tiles.dedup();
    tiles
}

/// Returns the Merkle tree hash of each range, reading each tile once.
fn roots_of<R: HashReader>(
    ranges: &[Range<u64>],
    size: u64,
    reader: &mut R,
) -> Result<Vec<Hash>, MakeProofError<R::Error>> {
    let mut tiles = BTreeMap::new();
    for tile in tiles_of(ranges, size) {
        tiles.insert(tile, hashes_of(tile, reader.read(tile))?);
    }
    let root_of = |range: &Range<u64>| {
        if range.is_empty() {
            return Some(EMPTY_ROOT);
        }
        let roots: Option<Vec<_>> = Perfect::of_range(range)
            .map(|subtree| {
                let (tile, under) = subtree.place(size)?;
                halve_to_root(&mut tiles.get(&tile)?.get(under)?.to_vec())
            })
            .collect();
        roots?
            .into_iter()
            .rev()
            .reduce(|right, left| node_hash(&left, &right))
    };
    ranges
        .iter()
        .map(|range| root_of(range).ok_or(MakeProofError::Range(range.end, size)))
        .collect()
}

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
