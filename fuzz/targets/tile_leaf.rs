//! Bytes that parse as a TileLeaf are written unchanged.

use lucarne_ct::{TileLeafRef, TrimmedEntry};

pub(crate) fn run(tile: &[u8]) {
    let mut rest = tile;
    let mut encoded = Vec::new();
    while let Ok(leaf) = TileLeafRef::read(&mut rest) {
        leaf.encode(&mut encoded);
        assert_eq!(encoded, tile[..tile.len() - rest.len()]);
        let mut merkle_leaf = Vec::new();
        leaf.merkle_tree_leaf(&mut merkle_leaf);
        let _ = (leaf.identity(), leaf.fingerprints.count());
        let mut line = Vec::new();
        TrimmedEntry::of(&leaf).write_line(&mut line);
        let line = std::str::from_utf8(&line).expect("text");
        assert_eq!(line.find('\n'), Some(line.len() - 1), "one line: {line}");
    }
}
