//! Tiles: the tree in rows of up to 256 hashes (C2SP tlog-tiles), with the levels of a static CT
//! log (C2SP static-ct-api, "Merkle Tree").

use std::fmt;

/// The number of hashes or entries in a full tile.
pub const TILE_WIDTH: u64 = 256;

/// Maximum number of leaves of a static CT log: `leaf_index` has 40 bits (C2SP static-ct-api, "SCT
/// extension").
pub const MAX_TREE_SIZE: u64 = 1 << 40;

/// The highest level of hash tiles (C2SP static-ct-api: "between 0 and 5").
pub const MAX_LEVEL: u8 = 5;

/// Prefixes of the paths of data tiles, names tiles and entry bundles.
const DATA: &str = "tile/data/";
const NAMES: &str = "tile/names/";
const ENTRIES: &str = "tile/entries/";

/// The content of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The entries themselves, as `TileLeaf` structures.
    Data,
    /// Hashes of perfect subtrees of 256^level leaves, `0..=5`.
    Hashes(u8),
}

impl Level {
    /// Returns the number of leaves under one entry of a tile of this level: 256^level.
    #[must_use]
    pub fn entry_leaves(self) -> u64 {
        match self {
            Self::Data => 1,
            Self::Hashes(level) => 1 << (8 * u32::from(level)),
        }
    }
}

/// A tile, full or partial: its level, index and width.
///
/// A tile always starts within [`MAX_TREE_SIZE`] leaves, so that computations with tiles never
/// overflow.
///
/// # Examples
///
/// ```
/// use lucarne_tlog::{Level, Tile};
///
/// let tile = Tile::widest(Level::Data, 1, 300).expect("a tree of 300 leaves has two tiles");
/// assert_eq!(tile.path(), "tile/data/001.p/44");
/// assert_eq!(tile.start_leaf(), 256);
/// assert_eq!(Tile::parse("tile/data/001.p/44"), Ok(tile));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    level: Level,
    index: u64,
    width: u16,
}

/// The reasons why a text is not the path of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TilePathError {
    /// The path does not have the form `tile/`, a level and an index.
    #[error("not a tile path: expected tile/<level>/<index> or tile/<level>/<index>.p/<width>")]
    Shape,
    /// The level is neither `data` nor one digit from 0 to 5.
    #[error("wrong tile level: expected data or a digit from 0 to 5")]
    Level,
    /// The index does not consist of groups of three digits as in `x001/x234/067`, or is beyond the
    /// largest tree.
    #[error("wrong tile index: expected groups of three digits such as x001/x234/067")]
    Index,
    /// The width of a partial tile is not a number from 1 to 255 without leading zeros.
    #[error("wrong tile width: expected a number from 1 to 255 without leading zeros")]
    Width,
}

impl Tile {
    /// Creates the tile of `width` entries at `index` of `level`; `None` unless the level is at
    /// most 5, the width is from 1 to 256, and the tile starts within [`MAX_TREE_SIZE`].
    #[must_use]
    pub fn new(level: Level, index: u64, width: u16) -> Option<Self> {
        if matches!(level, Level::Hashes(above) if above > MAX_LEVEL) {
            return None;
        }
        let tiles = MAX_TREE_SIZE.div_ceil(level.entry_leaves() * TILE_WIDTH);
        let valid = index < tiles && width >= 1 && u64::from(width) <= TILE_WIDTH;
        valid.then_some(Self {
            level,
            index,
            width,
        })
    }

    /// Returns the widest tile at `index` of `level` in a tree of `size` leaves; `None` if the tree
    /// has no tile there.
    #[must_use]
    pub fn widest(level: Level, index: u64, size: u64) -> Option<Self> {
        let entries = size / Self::new(level, index, 1)?.level.entry_leaves();
        let width = entries.checked_sub(index * TILE_WIDTH)?.min(TILE_WIDTH);
        Self::new(level, index, u16::try_from(width).ok()?)
    }

    /// Returns the partial tile at the right end of `level` in a tree of `size` leaves; `None` if
    /// the last tile is full or the level is empty.
    #[must_use]
    pub fn rightmost_partial(level: Level, size: u64) -> Option<Self> {
        let entries = size / level.entry_leaves();
        let width = u16::try_from(entries % TILE_WIDTH).ok()?;
        Self::new(level, entries / TILE_WIDTH, width)
    }

    /// Returns the level of the tile, which determines its content.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns the number of tiles of this level to the left.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Returns the number of hashes or entries, from 1 to 256.
    #[must_use]
    pub fn width(&self) -> u16 {
        self.width
    }

    /// Returns `true` if the tile has 256 entries and never changes again.
    #[must_use]
    pub fn is_full(&self) -> bool {
        u64::from(self.width) == TILE_WIDTH
    }

    /// Returns the path of the names tile for this data tile (the names tiles extension of static
    /// CT logs): `tile/names/x001/234.p/5`. Returns `None` for a hash tile.
    #[must_use]
    pub fn names_path(&self) -> Option<String> {
        self.path_below(NAMES)
    }

    /// Returns the path of the entry bundle (C2SP tlog-tiles, "Log Entries") for this data tile:
    /// `tile/entries/x001/234.p/5`. Returns `None` for a hash tile.
    #[must_use]
    pub fn entries_path(&self) -> Option<String> {
        self.path_below(ENTRIES)
    }

    fn path_below(&self, prefix: &str) -> Option<String> {
        let path = self.path();
        Some(format!("{prefix}{}", path.strip_prefix(DATA)?))
    }

    /// Returns the data tile whose names tile has this path.
    ///
    /// # Errors
    /// If the path is not the path of a names tile.
    pub fn parse_names(path: &str) -> Result<Self, TilePathError> {
        Self::parse_below(NAMES, path)
    }

    /// Returns the data tile whose entry bundle has this path.
    ///
    /// # Errors
    /// If the path is not the path of an entry bundle.
    pub fn parse_entries(path: &str) -> Result<Self, TilePathError> {
        Self::parse_below(ENTRIES, path)
    }

    fn parse_below(prefix: &str, path: &str) -> Result<Self, TilePathError> {
        let place = path.strip_prefix(prefix).ok_or(TilePathError::Shape)?;
        Self::parse(&format!("{DATA}{place}"))
    }

    /// Returns the full tile at this position.
    #[must_use]
    pub fn full(&self) -> Self {
        Self {
            width: TILE_WIDTH as u16,
            ..*self
        }
    }

    /// Returns the index of the first leaf under the tile.
    #[must_use]
    pub fn start_leaf(&self) -> u64 {
        self.index * TILE_WIDTH * self.level.entry_leaves()
    }

    /// Returns the index after the last leaf under the tile at this width, which is the smallest
    /// size of a tree with this tile.
    #[must_use]
    pub fn end_leaf(&self) -> u64 {
        (self.index * TILE_WIDTH + u64::from(self.width)) * self.level.entry_leaves()
    }

    /// Returns `true` if a tree of this size has all entries of the tile.
    #[must_use]
    pub fn covered_by(&self, tree_size: u64) -> bool {
        self.end_leaf() <= tree_size
    }

    /// Returns the path under the monitoring prefix, such as `tile/0/x001/234.p/5` or
    /// `tile/data/000`.
    #[must_use]
    pub fn path(&self) -> String {
        self.to_string()
    }

    /// Parses a path exactly as [`path`](Self::path) writes it.
    pub fn parse(path: &str) -> Result<Self, TilePathError> {
        let rest = path.strip_prefix("tile/").ok_or(TilePathError::Shape)?;
        let (level, rest) = rest.split_once('/').ok_or(TilePathError::Shape)?;
        let level = parse_level(level).ok_or(TilePathError::Level)?;
        let (index, width) = match rest.split_once(".p/") {
            Some((index, width)) => (index, parse_width(width).ok_or(TilePathError::Width)?),
            None => (rest, TILE_WIDTH as u16),
        };
        parse_index(index)
            .and_then(|index| Self::new(level, index, width))
            .ok_or(TilePathError::Index)
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Level::Data => f.write_str(DATA)?,
            Level::Hashes(level) => write!(f, "tile/{level}/")?,
        }
        write_index(f, self.index / 1000)?;
        write!(f, "{:03}", self.index % 1000)?;
        if !self.is_full() {
            write!(f, ".p/{}", self.width)?;
        }
        Ok(())
    }
}

/// Writes all groups of an index except the last: three digits each, after an `x`.
fn write_index(f: &mut fmt::Formatter<'_>, groups: u64) -> fmt::Result {
    if groups == 0 {
        return Ok(());
    }
    write_index(f, groups / 1000)?;
    write!(f, "x{:03}/", groups % 1000)
}

fn parse_level(text: &str) -> Option<Level> {
    match text.as_bytes() {
        b"data" => Some(Level::Data),
        [digit @ b'0'..=b'5'] => Some(Level::Hashes(digit - b'0')),
        _ => None,
    }
}

/// Parses the index in `x001/x234/067`: only the last group has no `x`, and the first of several
/// groups is not `x000`.
fn parse_index(text: &str) -> Option<u64> {
    let (leading, last) = match text.rsplit_once('/') {
        Some((leading, last)) => (Some(leading), last),
        None => (None, text),
    };
    let mut index = 0u64;
    for group in leading.into_iter().flat_map(|leading| leading.split('/')) {
        let group = parse_group(group.strip_prefix('x')?)?;
        index = index.checked_mul(1000)?.checked_add(group)?;
        if index == 0 {
            return None;
        }
    }
    index.checked_mul(1000)?.checked_add(parse_group(last)?)
}

fn parse_group(text: &str) -> Option<u64> {
    let three_digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    three_digits.then(|| text.parse().ok())?
}

fn parse_width(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let width = plain.then(|| text.parse::<u8>().ok())??;
    Some(width.into())
}

/// Returns the hash tiles that a publisher writes when its tree grows from `old_size` to
/// `new_size`: for each level, lowest first, the tiles that became full, then the rightmost partial
/// tile if it changed.
pub fn tiles_between(old_size: u64, new_size: u64) -> impl Iterator<Item = Tile> {
    (0..=MAX_LEVEL).flat_map(move |level| changed(Level::Hashes(level), old_size, new_size))
}

/// Returns the data tiles for [`tiles_between`], with the numbers and widths of the tiles of
/// level 0.
pub fn data_tiles_between(old_size: u64, new_size: u64) -> impl Iterator<Item = Tile> {
    changed(Level::Data, old_size, new_size)
}

fn changed(level: Level, old_size: u64, new_size: u64) -> impl Iterator<Item = Tile> {
    let first = old_size / level.entry_leaves();
    let end = new_size / level.entry_leaves();
    let tiles = if first < end {
        first / TILE_WIDTH..end.div_ceil(TILE_WIDTH)
    } else {
        0..0
    };
    tiles.filter_map(move |index| Tile::widest(level, index, new_size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_of_the_specification() {
        let path = |level, index, width| Tile::new(level, index, width).unwrap().path();
        assert_eq!(
            path(Level::Hashes(0), 1_234_067, 256),
            "tile/0/x001/x234/067"
        );
        assert_eq!(path(Level::Hashes(0), 1_234, 5), "tile/0/x001/234.p/5");
        assert_eq!(path(Level::Hashes(5), 0, 1), "tile/5/000.p/1");
        assert_eq!(path(Level::Data, 0, 256), "tile/data/000");
        assert_eq!(path(Level::Data, 1_000, 255), "tile/data/x001/000.p/255");
    }

    #[test]
    fn other_spellings_are_refused() {
        use TilePathError::*;
        for (path, error) in [
            ("", Shape),
            ("/tile/0/000", Shape),
            ("tile/0", Shape),
            ("tile/6/000", Level),
            ("tile/00/000", Level),
            ("tile/+0/000", Level),
            ("tile//000", Level),
            ("tile/Data/000", Level),
            ("tile/0/", Index),
            ("tile/0/0", Index),
            ("tile/0/00", Index),
            ("tile/0/0000", Index),
            ("tile/0/x00", Index),
            ("tile/0/x000", Index),
            ("tile/0/x000/001", Index),
            ("tile/0/x000/x001/001", Index),
            ("tile/0/001/002", Index),
            ("tile/0/x001/x002", Index),
            ("tile/0/x001//002", Index),
            ("tile/0/x+01/002", Index),
            ("tile/0/X001/002", Index),
            ("tile/0/000/", Index),
            ("tile/0/000.p", Index),
            ("tile/0/ 00", Index),
            ("tile/0/x999/x999/x999/x999/x999/x999/999", Index),
            ("tile/0/x999/x999/x999/x999/x999/x999/x999/999", Index),
            ("tile/5/001", Index),
            ("tile/0/000.p/", Width),
            ("tile/0/000.p/0", Width),
            ("tile/0/000.p/01", Width),
            ("tile/0/000.p/256", Width),
            ("tile/0/000.p/+1", Width),
            ("tile/0/000.p/1/", Width),
            ("tile/0/000.p/1 ", Width),
            ("tile/0/000.p/1.p/1", Width),
        ] {
            assert_eq!(Tile::parse(path), Err(error), "{path}");
        }
    }

    /// The examples of C2SP tlog-tiles, "Partial Tiles".
    #[test]
    fn tiles_of_known_sizes() {
        let paths = |size| {
            tiles_between(0, size)
                .map(|tile| tile.path())
                .collect::<Vec<_>>()
        };
        assert_eq!(paths(0), [""; 0]);
        assert_eq!(paths(256), ["tile/0/000", "tile/1/000.p/1"]);
        let of_70_000 = paths(70_000);
        assert_eq!(of_70_000.len(), 273 + 1 + 2 + 1);
        assert_eq!(
            of_70_000[272..],
            [
                "tile/0/272",
                "tile/0/273.p/112",
                "tile/1/000",
                "tile/1/001.p/17",
                "tile/2/000.p/1"
            ]
        );
    }

    #[test]
    fn constructor_refuses_what_no_log_has() {
        assert_eq!(Tile::new(Level::Hashes(6), 0, 1), None);
        assert_eq!(Tile::new(Level::Hashes(255), 0, 1), None);
        assert_eq!(Tile::new(Level::Data, 0, 0), None);
        assert_eq!(Tile::new(Level::Data, 0, 257), None);
        assert_eq!(Tile::new(Level::Data, MAX_TREE_SIZE / 256, 1), None);
        assert!(Tile::new(Level::Data, MAX_TREE_SIZE / 256 - 1, 256).is_some());
        assert_eq!(Tile::widest(Level::Hashes(9), 0, 1), None);
        assert_eq!(Tile::widest(Level::Hashes(0), u64::MAX, u64::MAX), None);
    }

    fn any_tile() -> impl Strategy<Value = Tile> {
        let level = prop_oneof![Just(Level::Data), (0..=MAX_LEVEL).prop_map(Level::Hashes)];
        (level, 0..MAX_TREE_SIZE, 1..=256u16, 0..40u32).prop_map(|(level, leaf, width, shift)| {
            let index = (leaf >> shift) / (level.entry_leaves() * TILE_WIDTH);
            Tile::new(level, index, width).unwrap()
        })
    }

    proptest! {
        #[test]
        fn path_round_trips(tile in any_tile()) {
            prop_assert_eq!(Tile::parse(&tile.path()), Ok(tile));
        }

        /// Every parsed path is written exactly as it was read.
        #[test]
        fn parsing_accepts_one_spelling(path in "tile/(data|[0-6]{1,2})/(x[0-9]{3}/){0,3}[0-9]{2,4}(\\.p/[0-9]{0,4})?") {
            if let Ok(tile) = Tile::parse(&path) {
                prop_assert_eq!(tile.path(), path);
            }
        }

        #[test]
        fn parsing_never_panics(path in "(tile/)?\\PC{0,40}") {
            let _ = Tile::parse(&path);
        }

        #[test]
        fn extents_agree(tile in any_tile(), size in 0..MAX_TREE_SIZE) {
            prop_assert_eq!(tile.covered_by(tile.end_leaf()), true);
            prop_assert_eq!(tile.covered_by(tile.end_leaf() - 1), false);
            prop_assert!(tile.full().is_full() && tile.full().start_leaf() == tile.start_leaf());
            match Tile::widest(tile.level(), tile.index(), size) {
                Some(widest) => {
                    prop_assert!(widest.covered_by(size));
                    prop_assert_eq!(tile.covered_by(size), tile.width() <= widest.width());
                }
                None => prop_assert!(!tile.covered_by(size)),
            }
        }

        /// `tiles_between` agrees with its definition: the tiles of the new tree that the old tree
        /// did not have.
        #[test]
        fn tiles_between_is_the_difference(a in 0..200_000u64, b in 0..200_000u64) {
            let (old, new) = (a.min(b), a.max(b));
            let got: Vec<_> = tiles_between(old, new).collect();
            let wanted: Vec<_> = (0..=MAX_LEVEL)
                .flat_map(|level| (0..1000).map(move |index| (Level::Hashes(level), index)))
                .filter_map(|(level, index)| Tile::widest(level, index, new))
                .filter(|tile| !tile.covered_by(old))
                .collect();
            prop_assert_eq!(got, wanted);
            prop_assert_eq!(tiles_between(new, old).count(), 0);
        }
    }
}
