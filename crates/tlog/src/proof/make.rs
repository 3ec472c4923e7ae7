//! Creation of proofs from tiles. Every hash of a proof is the root of a range of leaves. A range
//! consists of perfect subtrees, and each subtree is in one tile.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::edge::{TileError, halve_to_root, hashes_of};
use crate::hash::{EMPTY_ROOT, Hash, node_hash};
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
    /// The leaf is outside the tree, the older tree is larger than the newer tree, or the tree is
    /// larger than [`MAX_TREE_SIZE`].
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
    if index >= size || size > MAX_TREE_SIZE {
        return Err(MakeProofError::Range(index, size));
    }
    roots_of(&inclusion_ranges(index, size), size, reader)
}

/// Returns the proof that the tree of `new_size` leaves begins with the tree of `old_size` leaves:
/// `PROOF(m, D[n])` of RFC 6962, section 2.1.2. The RFC does not define the proof for an empty
/// older tree; here, the proof is empty.
pub fn consistency_proof<R: HashReader>(
    old_size: u64,
    new_size: u64,
    reader: &mut R,
) -> Result<Vec<Hash>, MakeProofError<R::Error>> {
    if old_size > new_size || new_size > MAX_TREE_SIZE {
        return Err(MakeProofError::Range(old_size, new_size));
    }
    roots_of(&consistency_ranges(old_size, new_size), new_size, reader)
}

/// Returns the Merkle tree hash of the first `size` leaves (RFC 6962, section 2.1).
pub fn tree_root<R: HashReader>(
    size: u64,
    reader: &mut R,
) -> Result<Hash, MakeProofError<R::Error>> {
    if size > MAX_TREE_SIZE {
        return Err(MakeProofError::Range(size, size));
    }
    if size == 0 {
        return Ok(EMPTY_ROOT);
    }
    let whole = 0..size;
    Ok(roots_of(std::slice::from_ref(&whole), size, reader)?[0])
}

/// Returns the tiles that [`inclusion_proof`] reads; none for a leaf outside the tree.
#[must_use]
pub fn inclusion_tiles(index: u64, size: u64) -> Vec<Tile> {
    tiles_of(&inclusion_ranges(index, size), size)
}

/// Returns the tiles that [`consistency_proof`] reads.
#[must_use]
pub fn consistency_tiles(old_size: u64, new_size: u64) -> Vec<Tile> {
    tiles_of(&consistency_ranges(old_size, new_size), new_size)
}

/// Returns the ranges of leaves whose roots are `PATH(index, D[size])`.
fn inclusion_ranges(index: u64, size: u64) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    let mut tree = 0..if index < size { size } else { 0 };
    while tree.end - tree.start > 1 {
        let middle = split(&tree);
        if index < middle {
            ranges.push(middle..tree.end);
            tree.end = middle;
        } else {
            ranges.push(tree.start..middle);
            tree.start = middle;
        }
    }
    ranges.reverse();
    ranges
}

/// Returns the ranges of leaves whose roots are `PROOF(old_size, D[new_size])`.
fn consistency_ranges(old_size: u64, new_size: u64) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    if old_size == 0 || old_size >= new_size {
        return ranges;
    }
    let mut tree = 0..new_size;
    while old_size < tree.end {
        let middle = split(&tree);
        if old_size <= middle {
            ranges.push(middle..tree.end);
            tree.end = middle;
        } else {
            ranges.push(tree.start..middle);
            tree.start = middle;
        }
    }
    // The verifier knows the old root: a subtree with this root is omitted.
    if tree.start > 0 {
        ranges.push(tree);
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
struct Subtree {
    start: u64,
    height: u32,
}

impl Subtree {
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
    let subtrees = ranges.iter().flat_map(Subtree::of_range);
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
        let roots: Option<Vec<_>> = Subtree::of_range(range)
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
