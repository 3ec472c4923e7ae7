//! A tile path that parses is written unchanged, and no property of the tile overflows.

use lucarne_tlog::Tile;

pub(crate) fn run(bytes: &[u8]) {
    let Ok(path) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(tile) = Tile::parse(path) {
        assert_eq!(tile.path(), path);
        assert!(tile.covered_by(tile.end_leaf()) && tile.start_leaf() < tile.end_leaf());
        assert!(tile.full().end_leaf() >= tile.end_leaf());
    }
}
