//! Compares the tree with the definitions of RFC 6962 for every size up to 1,100: more than one
//! full level-0 tile, more than 1,024, and all partial widths in between.

use std::collections::BTreeMap;

use crate::support::*;
use lucarne_tlog::*;

const SIZES: u64 = 1_100;

/// Returns the indices to test in a tree of `size`: all indices of a small tree, otherwise the
/// ends, the tile borders, and a few indices that depend on the size.
fn indices(size: u64) -> Vec<u64> {
    if size <= 200 {
        return (0..size).collect();
    }
    let wandering = (1..=8).map(|i| (size * 7919 + i * 104_729) % size);
    let borders = [
        0,
        1,
        255,
        256,
        257,
        511,
        512,
        767,
        768,
        1023,
        1024,
        size / 2,
        size - 2,
        size - 1,
    ];
    let mut all: Vec<_> = borders
        .into_iter()
        .chain(wandering)
        .filter(|i| *i < size)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn roots_of_the_shared_test_tree() {
    let leaves = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ];
    let roots = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];
    let (mut edge, mut frontier) = (RightEdge::new(), Frontier::new());
    for (leaf, root) in leaves.iter().zip(roots) {
        let bytes: Vec<u8> = (0..leaf.len() / 2)
            .map(|i| u8::from_str_radix(&leaf[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        edge.append(&[leaf_hash(&bytes)]);
        frontier.push(leaf_hash(&bytes));
        assert_eq!(format!("{:?}", edge.root()), root);
        assert_eq!(format!("{:?}", frontier.root()), root);
    }
}

#[test]
fn roots_by_every_path() {
    let tree = Distinct::new(SIZES);
    let mut edge = RightEdge::new();
    let mut frontier = Frontier::new();
    for size in 0..=SIZES {
        let root = tree.root(0..size);
        assert_eq!((edge.size(), edge.root()), (size, root));
        assert_eq!((frontier.size(), frontier.root()), (size, root));
        assert_eq!(Frontier::from_right_edge(&edge), frontier);

        let loaded = RightEdge::load(size, |tile| Ok::<_, ()>(tree.tile(tile))).unwrap();
        assert_eq!(loaded, edge);
        assert_eq!(
            tree_root(size, &mut |tile| Ok::<_, ()>(tree.tile(tile))).unwrap(),
            root
        );

        if let Some(leaf) = tree.leaves().get(size as usize) {
            edge.append(&[*leaf]);
            frontier.push(*leaf);
        }
    }
}

/// Growing from any size by any number of leaves writes exactly the tiles of the new tree that the
/// old one did not have, byte for byte.
#[test]
fn tiles_of_every_step() {
    let tree = Distinct::new(SIZES);
    for old in (0..SIZES).filter(|old| old % 17 == 0 || (250..260).contains(&(old % 256))) {
        let edge = RightEdge::load(old, |tile| Ok::<_, ()>(tree.tile(tile))).unwrap();
        for new in indices(SIZES)
            .into_iter()
            .chain([old + 1, SIZES])
            .filter(|new| *new >= old)
        {
            let mut grown = edge.clone();
            let written = grown.append(&tree.leaves()[old as usize..new as usize]);
            let wanted: Vec<_> = tiles_between(old, new)
                .map(|tile| (tile, tree.tile(tile)))
                .collect();
            assert_eq!(written, wanted, "from {old} to {new}");
            assert_eq!(grown.root(), tree.root(0..new));
        }
    }
}

/// The written tiles are sufficient to read any tile of any earlier size: a narrower tile is a
/// prefix of a wider one.
#[test]
fn published_tiles_serve_every_size() {
    let tree = Distinct::new(SIZES);
    let mut published = BTreeMap::new();
    let mut edge = RightEdge::new();
    for (step, round) in tree.leaves().chunks(37).enumerate() {
        let size = (37 * step) as u64;
        for (tile, bytes) in edge.append(round) {
            published.insert((tile.level(), tile.index()), bytes);
        }
        for tile in tiles_between(0, size) {
            let newest = &published[&(tile.level(), tile.index())];
            assert_eq!(newest[..usize::from(tile.width()) * 32], tree.tile(tile));
        }
    }
}

#[test]
fn tile_root_is_the_entry_above() {
    let tree = Distinct::new(1024);
    let full = Tile::new(Level::Hashes(0), 3, 256).unwrap();
    let bytes = tree.tile(full);
    assert_eq!(tile_root(&bytes), Some(tree.perfect(8, 3)));
    for wrong in [
        &bytes[1..],
        &bytes[32..],
        &bytes[..0],
        &[&bytes[..], &[0; 32]].concat(),
    ] {
        assert_eq!(tile_root(wrong), None);
    }
}

#[test]
fn inclusion_proofs() {
    let tree = Distinct::new(SIZES);
    for size in 1..=SIZES {
        let root = tree.root(0..size);
        for index in indices(size) {
            let proof = check_inclusion(&tree, index, size, &root);
            if size <= 40 || size % 97 == 0 {
                let leaf = tree.leaves()[index as usize];
                refuse_wrong_inclusion(&leaf, index, size, &root, &proof);
                for wrong in indices(size).into_iter().filter(|wrong| *wrong != index) {
                    assert!(verify_inclusion(&leaf, wrong, size, &root, &proof).is_err());
                }
            }
        }
    }
}

#[test]
fn consistency_proofs() {
    let tree = Distinct::new(SIZES);
    for new in 0..=SIZES {
        let new_head = (new, &tree.root(0..new));
        for old in indices(new).into_iter().chain([new]) {
            let old_head = (old, &tree.root(0..old));
            let proof = check_consistency(&tree, old_head, new_head);
            if new <= 40 || new % 97 == 0 {
                refuse_wrong_consistency(old_head, new_head, &proof);
            }
        }
    }
}

/// Errors name a tile of the wrong length or an unreadable one.
#[test]
fn damaged_tiles_are_named() {
    let tree = Distinct::new(300);
    let short = |tile: Tile| Ok::<_, String>(tree.tile(tile)[1..].to_vec());
    let absent = |_: Tile| Err::<Vec<u8>, _>("no such file".to_owned());

    let error = RightEdge::load(300, short).unwrap_err().to_string();
    assert_eq!(error, "tile/0/001.p/44: expected 1408 bytes, found 1407");
    let error = RightEdge::load(300, absent).unwrap_err().to_string();
    assert_eq!(error, "reading tile/0/001.p/44: no such file");
    let error = inclusion_proof(0, 300, &mut { short })
        .unwrap_err()
        .to_string();
    assert_eq!(error, "tile/0/000: expected 8192 bytes, found 8191");
    let narrow = |tile: Tile| Ok::<_, String>(tree.tile(tile)[32..].to_vec());
    let error = inclusion_proof(0, 300, &mut { narrow })
        .unwrap_err()
        .to_string();
    assert_eq!(error, "tile/0/000: expected 8192 bytes, found 8160");
    let error = consistency_proof(299, 300, &mut { absent })
        .unwrap_err()
        .to_string();
    assert!(error.ends_with(": no such file"), "{error}");
}

#[test]
fn impossible_questions_are_refused() {
    let absent = |_: Tile| Err::<Vec<u8>, _>(());
    assert!(matches!(
        RightEdge::load(MAX_TREE_SIZE + 1, absent),
        Err(LoadError::Size(size)) if size == MAX_TREE_SIZE + 1
    ));
    assert!(matches!(
        inclusion_proof(5, 5, &mut { absent }),
        Err(MakeProofError::Range(5, 5))
    ));
    assert!(matches!(
        consistency_proof(6, 5, &mut { absent }),
        Err(MakeProofError::Range(6, 5))
    ));
    assert!(tree_root(MAX_TREE_SIZE + 1, &mut { absent }).is_err());
    assert!(inclusion_tiles(5, 5).is_empty() && inclusion_tiles(u64::MAX, 0).is_empty());
    assert!(consistency_tiles(6, 5).is_empty());
    for huge in [u64::MAX, u64::MAX - 1, 1 << 63] {
        assert!(verify_inclusion(&EMPTY_ROOT, huge - 1, huge, &EMPTY_ROOT, &[]).is_err());
        assert!(verify_consistency(3, &EMPTY_ROOT, huge, &EMPTY_ROOT, &[EMPTY_ROOT; 90]).is_err());
    }
}
