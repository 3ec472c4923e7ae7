//! Tests of the usable part of a data tile, and of the number of bytes read for it.

use bytes::Bytes;
use lucarne_storage::{Assets, MemoryAssets};

use super::*;
use crate::data::gzip::gzip;
use crate::read::damaged_files::DamagedFiles;
use crate::read::read_cache::read_cache;
use crate::read::verified_tiles::VerifiedTiles;
use crate::read::verified_tiles::tests::entry;
use lucarne_ctread::gunzip;

const ENTRIES: u64 = 2 * TILE_WIDTH + 7;

/// A log of [`ENTRIES`] entries, in memory.
struct Stored {
    assets: MemoryAssets,
    tree: Tree,
}

impl Stored {
    fn new() -> Self {
        let entries = Bytes::from((0..ENTRIES).flat_map(entry).collect::<Vec<u8>>());
        let (leaves, ends) = lucarne_ctread::leaves(&entries).unwrap();
        let (assets, mut tree) = (MemoryAssets::new(), Tree::empty());
        for (tile, bytes) in tree.append_leaves(&leaves) {
            assets.tamper(&tile.path(), Some(bytes));
        }
        for (tile, bytes) in tree.append_data(0, &entries, &ends) {
            assets.tamper(&tile.path(), Some(gzip(&bytes).unwrap()));
        }
        Stored { assets, tree }
    }

    async fn tile(&self, path: &str) -> Bytes {
        self.assets.get(path).await.unwrap().unwrap()
    }

    async fn read(&self, tile: u64) -> Found {
        let assets = Arc::new(self.assets.clone());
        let verified =
            VerifiedTiles::of_store(assets, read_cache(1 << 20), DamagedFiles::default());
        let source = Source::new(&self.assets, &verified, &self.tree);
        source.read(tile).await.unwrap()
    }
}

/// The sizes of earlier reads determine the number of tiles to read ahead.
#[tokio::test]
async fn what_was_read_for_a_tile_is_counted() {
    let stored = Stored::new();
    let whole = stored.tile("tile/data/001").await;
    let found = stored.read(1).await;
    assert_eq!((found.entries.len(), found.gaps.len()), (256, 0));
    assert_eq!((found.first, found.read), (256, whole.len()));
    // The right edge is in memory.
    let found = stored.read(2).await;
    assert_eq!((found.first, found.entries.len(), found.read), (512, 7, 0));
    // A truncated tile is read twice, and its entries before the cut are kept.
    let plain = gunzip(whole).unwrap();
    let cut = plain.slice(..plain.len() / 2);
    stored.assets.tamper("tile/data/001", Some(cut.clone()));
    let found = stored.read(1).await;
    assert_eq!((found.entries.len(), found.read), (128, 2 * cut.len()));
    let gap = &found.gaps[..];
    assert!(
        matches!(
            gap,
            [Gap {
                first: 384,
                end: 512,
                ..
            }]
        ),
        "{gap:?}"
    );
}

/// An entry whose hash is not in the tree is not indexed.
#[tokio::test]
async fn what_the_tree_does_not_vouch_for_is_a_gap() {
    let stored = Stored::new();
    let mut plain = gunzip(stored.tile("tile/data/001").await).unwrap().to_vec();
    plain[7] ^= 1; // the last byte of the first timestamp
    let flipped = gzip(&plain).unwrap();
    stored.assets.tamper("tile/data/001", Some(flipped));
    let found = stored.read(1).await;
    assert_eq!(found.entries.len(), 255);
    assert!(found.entries.iter().all(|(_, place)| place.index != 256));
    let gaps = found.gaps.iter().map(|gap| (gap.first, gap.end));
    assert_eq!(gaps.collect::<Vec<_>>(), [(256, 257)]);
}
