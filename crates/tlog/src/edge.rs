//! The right edge of the tree: the partial hash tile at the end of each level (C2SP tlog-tiles,
//! "Partial Tiles"). The right edge is all the state that a publisher needs between rounds.

use crate::hash::{EMPTY_ROOT, Hash, node_hash};
use crate::tile::{Level, MAX_LEVEL, MAX_TREE_SIZE, TILE_WIDTH, Tile};

const LEVELS: usize = MAX_LEVEL as usize + 1;

/// The rightmost partial hash tile of each level.
///
/// Each call of [`root`](Self::root) computes the root from these tiles, which are the published
/// hashes. There is no other state that could disagree with these hashes.
///
/// # Examples
///
/// ```
/// use lucarne_tlog::{RightEdge, leaf_hash};
///
/// let mut edge = RightEdge::new();
/// let tiles = edge.append(&[leaf_hash(b"one"), leaf_hash(b"two")]);
/// assert_eq!(tiles[0].0.path(), "tile/0/000.p/2");
///
/// // The tiles are all that the next round needs.
/// let reloaded = RightEdge::load(2, |_| Ok::<_, std::io::Error>(tiles[0].1.clone()))?;
/// assert_eq!(reloaded.root(), edge.root());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RightEdge {
    size: u64,
    /// The partial tile of each level: fewer than 256 hashes, possibly none.
    levels: [Vec<Hash>; LEVELS],
}

/// The reasons why a hash tile could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TileError<E> {
    /// The reader returned an error.
    #[error("reading {}: {error}", tile.path())]
    Read {
        /// The requested tile.
        tile: Tile,
        /// Error of the reader.
        error: E,
    },
    /// The length of the tile does not match its width.
    #[error("{}: expected {} bytes, found {length}", tile.path(), usize::from(tile.width()) * Hash::LENGTH)]
    Length {
        /// The requested tile.
        tile: Tile,
        /// Length in bytes.
        length: usize,
    },
}

/// The reasons why a right edge could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError<E> {
    /// A tile could not be read.
    #[error(transparent)]
    Tile(#[from] TileError<E>),
    /// The tree is larger than any static CT log.
    #[error("a tree of {0} leaves is too large: a static CT log has at most 2^40")]
    Size(u64),
}

impl RightEdge {
    /// Creates the edge of the empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self {
            size: 0,
            levels: Default::default(),
        }
    }

    /// Reads the edge of a tree of `size` leaves from its tiles: `read` is called for each
    /// rightmost partial hash tile.
    ///
    /// Compare [`root`](Self::root) with a signed root to verify that the tiles belong to the tree.
    pub fn load<E>(
        size: u64,
        mut read: impl FnMut(Tile) -> Result<Vec<u8>, E>,
    ) -> Result<Self, LoadError<E>> {
        if size > MAX_TREE_SIZE {
            return Err(LoadError::Size(size));
        }
        let mut edge = Self {
            size,
            ..Self::new()
        };
        for tile in Self::tiles(size) {
            let Level::Hashes(level) = tile.level() else {
                continue;
            };
            edge.levels[usize::from(level)] = hashes_of(tile, read(tile))?;
        }
        Ok(edge)
    }

    /// Returns the tiles that [`load`](Self::load) reads, to fetch them in advance.
    pub fn tiles(size: u64) -> impl Iterator<Item = Tile> {
        (0..=MAX_LEVEL).filter_map(move |level| Tile::rightmost_partial(Level::Hashes(level), size))
    }

    /// Returns the number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the hashes of the partial tile at the end of `level`; empty if the last tile is
    /// full, and above level 5.
    #[must_use]
    pub fn partial(&self, level: u8) -> &[Hash] {
        self.levels
            .get(usize::from(level))
            .map_or(&[], Vec::as_slice)
    }

    /// Returns the Merkle tree hash (RFC 6962, section 2.1).
    ///
    /// From the lowest level upwards, the leaves after a level's partial tile form one incomplete
    /// subtree. The root of this subtree is appended to the hashes of the tile. Then the row is
    /// halved until one hash is left; an unpaired last hash moves up unchanged. This takes as many
    /// hash operations as the edge has hashes, at most 1,275 and usually a tenth of that.
    #[must_use]
    pub fn root(&self) -> Hash {
        let mut right = None;
        for level in &self.levels {
            let mut row = level.clone();
            row.extend(right);
            right = halve_to_root(&mut row);
        }
        right.unwrap_or(EMPTY_ROOT)
    }

    /// Appends leaves by their hashes, and returns the tiles to write in the order of
    /// [`tiles_between`](crate::tile::tiles_between): for each level the tiles that became full,
    /// then the partial tile if it changed.
    ///
    /// # Panics
    ///
    /// If the tree would grow beyond [`MAX_TREE_SIZE`].
    pub fn append(&mut self, leaves: &[Hash]) -> Vec<(Tile, Vec<u8>)> {
        let old_size = self.size;
        self.size += leaves.len() as u64;
        assert!(
            self.size <= MAX_TREE_SIZE,
            "a static CT log has at most 2^40 entries"
        );

        let mut tiles = Vec::new();
        let mut entries = leaves.to_vec();
        for (level, partial) in (0..).map(Level::Hashes).zip(&mut self.levels) {
            if entries.is_empty() {
                break;
            }
            let index = old_size / level.entry_leaves() / TILE_WIDTH;
            entries = append_to_level(partial, &entries, level, index, &mut tiles);
        }
        tiles
    }
}

impl Default for RightEdge {
    fn default() -> Self {
        Self::new()
    }
}

/// Appends `entries` to the partial tile number `index` of `level`, adds the tiles to write to
/// `tiles`, and returns the entries of the level above.
fn append_to_level(
    partial: &mut Vec<Hash>,
    mut entries: &[Hash],
    level: Level,
    index: u64,
    tiles: &mut Vec<(Tile, Vec<u8>)>,
) -> Vec<Hash> {
    let mut above = Vec::new();
    for index in index.. {
        let room = TILE_WIDTH as usize - partial.len();
        let (now, later) = entries.split_at(room.min(entries.len()));
        partial.extend_from_slice(now);
        entries = later;
        // Widths and indices are in range because the size is.
        tiles.extend(
            Tile::new(level, index, partial.len() as u16).map(|tile| (tile, write_hashes(partial))),
        );
        if partial.len() < TILE_WIDTH as usize {
            break;
        }
        above.extend(halve_to_root(partial));
        partial.clear();
    }
    above
}

/// Returns the root of the hashes of a full tile, which is one entry of the tile above (C2SP
/// tlog-tiles); `None` unless there are 256 × 32 bytes.
#[must_use]
pub fn tile_root(full_tile_bytes: &[u8]) -> Option<Hash> {
    let mut row = read_hashes(full_tile_bytes)?;
    (row.len() as u64 == TILE_WIDTH).then(|| halve_to_root(&mut row))?
}

/// Returns the root of a row of hashes (RFC 6962, section 2.1), computed row by row from the
/// bottom; `None` if the row is empty. Afterwards the row has only the root.
pub(crate) fn halve_to_root(row: &mut Vec<Hash>) -> Option<Hash> {
    while row.len() > 1 {
        let pairs = row.len() / 2;
        for pair in 0..pairs {
            row[pair] = node_hash(&row[2 * pair], &row[2 * pair + 1]);
        }
        if row.len() % 2 == 1 {
            row[pairs] = row[2 * pairs];
        }
        row.truncate(row.len().div_ceil(2));
    }
    row.first().copied()
}

/// Returns the hashes of a tile that was read.
pub(crate) fn hashes_of<E>(
    tile: Tile,
    read: Result<Vec<u8>, E>,
) -> Result<Vec<Hash>, TileError<E>> {
    let bytes = read.map_err(|error| TileError::Read { tile, error })?;
    read_hashes(&bytes)
        .filter(|hashes| hashes.len() == usize::from(tile.width()))
        .ok_or(TileError::Length {
            tile,
            length: bytes.len(),
        })
}

/// Parses the hashes in the bytes of a tile; `None` if the last hash is incomplete.
fn read_hashes(bytes: &[u8]) -> Option<Vec<Hash>> {
    let (hashes, rest) = bytes.as_chunks::<{ Hash::LENGTH }>();
    rest.is_empty()
        .then(|| hashes.iter().copied().map(Hash).collect())
}

/// Returns the bytes of a tile with these hashes (C2SP tlog-tiles).
fn write_hashes(hashes: &[Hash]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(hashes.len() * Hash::LENGTH);
    hashes
        .iter()
        .for_each(|hash| bytes.extend_from_slice(&hash.0));
    bytes
}
