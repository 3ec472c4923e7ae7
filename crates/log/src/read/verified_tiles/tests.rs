use lucarne_ct::{Entry, SignedEntry, TileLeaf};
use lucarne_storage::{DiskCache, MemoryAssets};
use lucarne_testkit::until;

use super::*;
use crate::data::gzip::gzip;
use crate::read::read_cache::read_cache;

/// Hash tiles up to level 2, and the entries of the first data tile.
struct Forest {
    assets: MemoryAssets,
    edge: Arc<RightEdge>,
    entries: Bytes,
}

impl Forest {
    fn new() -> Forest {
        let entries = Bytes::from((0..256).flat_map(entry).collect::<Vec<u8>>());
        let (mut leaves, _) = lucarne_ctread::leaves(&entries).unwrap();
        leaves.extend((256..65_536 + 300).map(|n: u64| lucarne_tlog::leaf_hash(&n.to_be_bytes())));
        let (assets, mut edge) = (MemoryAssets::new(), RightEdge::new());
        for (tile, bytes) in edge.append(&leaves) {
            assets.tamper(&tile.path(), Some(bytes.into()));
        }
        let packed = gzip(&entries).unwrap();
        assets.tamper("tile/data/000", Some(packed));
        let edge = Arc::new(edge);
        Forest {
            assets,
            edge,
            entries,
        }
    }

    /// Returns the tiles with an empty cache.
    fn tiles(&self) -> VerifiedTiles {
        verified(Arc::new(self.assets.clone()))
    }

    fn stored(&self, path: &str) -> Bytes {
        let get = self.assets.get(path);
        get.now_or_never().unwrap().unwrap().unwrap()
    }
}

/// Creates tiles whose damaged files are read again at once.
fn verified(assets: Arc<dyn Assets>) -> VerifiedTiles {
    VerifiedTiles::of_store(assets, read_cache(1 << 20), DamagedFiles::default())
}

/// Returns an entry in the format of data tiles; it differs for each index.
pub(crate) fn entry(index: u64) -> Vec<u8> {
    let certificate = Bytes::from(index.to_be_bytes().repeat(10));
    let signed = SignedEntry::X509 { certificate };
    let entry = Entry {
        identity: signed.identity(),
        signed,
        precertificate: None,
        issuers: Arc::from([]),
    };
    let mut leaf = Vec::new();
    TileLeaf::encode(7, &entry, index, &mut leaf);
    leaf
}

fn tile(path: &str) -> Tile {
    Tile::parse(path).unwrap()
}

/// Returns the bytes with a flipped bit in the middle, cut in half, and emptied.
fn damages(bytes: &Bytes) -> [Bytes; 3] {
    let mut flipped = bytes.to_vec();
    flipped[bytes.len() / 2] ^= 1;
    [flipped.into(), bytes.slice(..bytes.len() / 2), Bytes::new()]
}

#[tokio::test]
async fn what_does_not_fit_the_tree_is_not_given_out() {
    let forest = Forest::new();
    for (path, leads_to) in [
        ("tile/0/000", "tile/0/000"),
        ("tile/0/255", "tile/0/255"),
        ("tile/1/000", "tile/0/000"),
        ("tile/1/000", "tile/data/000"),
        ("tile/0/000", "tile/data/000"),
        ("tile/data/000", "tile/data/000"),
    ] {
        let good = forest.stored(path);
        for bad in damages(&good) {
            forest.assets.tamper(path, Some(bad));
            let tiles = forest.tiles();
            let error = tiles.full(&forest.edge, tile(leads_to)).await.unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with(path), "on the way to {leads_to}: {error}");
            assert!(tiles.damaged().in_words().unwrap().starts_with(path));
            forest.assets.tamper(path, Some(good.clone()));
            let stored = tiles.full(&forest.edge, tile(leads_to)).await.unwrap();
            assert_eq!(stored.bytes, forest.stored(leads_to));
            assert_eq!(tiles.damaged().in_words(), None);
        }
    }
}

#[tokio::test]
async fn another_tile_of_the_log_is_not_taken_for_the_one_asked_for() {
    let forest = Forest::new();
    let other = forest.stored("tile/0/001");
    forest.assets.tamper("tile/0/000", Some(other));
    let tiles = forest.tiles();
    assert!(tiles.full(&forest.edge, tile("tile/0/000")).await.is_err());
    assert!(tiles.full(&forest.edge, tile("tile/0/001")).await.is_ok());
}

#[tokio::test]
async fn leaf_hashes_come_from_tiles_and_from_the_edge() {
    let forest = Forest::new();
    let tiles = forest.tiles();
    let (leaves, _) = lucarne_ctread::leaves(&forest.entries).unwrap();
    assert_eq!(tiles.leaf_hash(&forest.edge, 17).await.unwrap(), leaves[17]);
    for index in [256, 65_535, 65_536, 65_835] {
        let leaf = lucarne_tlog::leaf_hash(&u64::to_be_bytes(index));
        assert_eq!(tiles.leaf_hash(&forest.edge, index).await.unwrap(), leaf);
    }
    assert!(tiles.leaf_hash(&forest.edge, 65_836).await.is_err());
}

#[tokio::test]
async fn entries_come_plain_or_packed_and_from_wider_tiles() {
    let forest = Forest::new();
    let (assets, tiles) = (&forest.assets, forest.tiles());
    let all = tiles.entries(&forest.edge, tile("tile/data/000"));
    assert_eq!(all.await.unwrap(), forest.entries);
    let seven = forest.entries.slice(..7 * entry(0).len());
    let partial = tile("tile/data/000.p/7");
    assert_eq!(tiles.entries(&forest.edge, partial).await.unwrap(), seven);
    for stored in [seven.clone(), gzip(&seven).unwrap()] {
        assets.tamper("tile/data/000.p/7", Some(stored));
        assert_eq!(tiles.entries(&forest.edge, partial).await.unwrap(), seven);
    }
    // A wrong candidate is skipped in favour of a correct candidate.
    assets.tamper("tile/data/000.p/7", Some(forest.entries.clone()));
    assert_eq!(tiles.entries(&forest.edge, partial).await.unwrap(), seven);
    assert!(tiles.damaged().in_words().unwrap().contains("000.p/7: "));
    assets.tamper("tile/data/000", Some(forest.entries.clone()));
    let all = tiles.entries(&forest.edge, tile("tile/data/000"));
    assert_eq!(all.await.unwrap(), forest.entries);
    let more = [&forest.entries[..], b"more"].concat();
    assets.tamper("tile/data/000", Some(more.into()));
    let all = tiles.entries(&forest.edge, tile("tile/data/000"));
    let error = all.await.unwrap_err().to_string();
    assert!(
        error.contains("4 extra bytes after the last entry"),
        "{error}"
    );
}

#[tokio::test]
async fn a_cache_that_has_something_else_is_told_and_the_store_asked() {
    let forest = Forest::new();
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(forest.assets.clone());
    let cache = Arc::new(DiskCache::new(directory.path(), 1 << 20, Arc::new(())));
    cache.start();
    let cached = ReadAssets::cached(store, cache);
    let verified = || {
        let memory = read_cache(1 << 20);
        VerifiedTiles::new(cached.clone(), memory, DamagedFiles::default())
    };
    let path = "tile/0/000";
    let good = forest.stored(path);
    let keeps = async |bytes: &Bytes, does: bool| {
        // The cache is written in the background.
        until("the cache holds what it should", || {
            files(directory.path()).contains(&bytes.to_vec()) == does
        })
        .await;
    };
    let [bad, ..] = damages(&good);
    cached.keep(path, &bad);
    keeps(&bad, true).await;
    let tiles = verified();
    let stored = tiles.full(&forest.edge, tile(path)).await.unwrap();
    assert_eq!(
        (stored.bytes, tiles.damaged().in_words()),
        (good.clone(), None)
    );
    keeps(&good, true).await;
    keeps(&bad, false).await;
    // Wrong bytes from the store are not kept at all.
    cached.forget(path).await;
    keeps(&good, false).await;
    forest.assets.tamper(path, Some(bad.clone()));
    let tiles = verified();
    assert!(tiles.full(&forest.edge, tile(path)).await.is_err());
    keeps(&bad, false).await;
}

/// Returns the files in the cache, without their checksums.
fn files(directory: &std::path::Path) -> Vec<Vec<u8>> {
    let list = |path| {
        std::fs::read_dir(path)
            .unwrap()
            .map(|file| file.unwrap().path())
    };
    let files = list(directory.to_owned()).flat_map(list);
    let files = files.filter_map(|file| std::fs::read(file).ok());
    files
        .filter_map(|file| Some(file.get(16..)?.to_vec()))
        .collect()
}

#[tokio::test]
async fn issuers_are_what_their_name_says() {
    let forest = Forest::new();
    let der = Bytes::from_static(b"a certificate");
    let of = Fingerprint::of(&der);
    let path = format!("issuer/{of}");
    assert_eq!(forest.tiles().issuer(&of).await.unwrap(), None);
    forest.assets.tamper(&path, Some(der.clone()));
    assert_eq!(forest.tiles().issuer(&of).await.unwrap(), Some(der.clone()));
    for bad in damages(&der) {
        forest.assets.tamper(&path, Some(bad));
        let error = forest.tiles().issuer(&of).await.unwrap_err().to_string();
        assert!(error.starts_with(&path), "{error}");
    }
}
