//! A reader of a log in memory finds each kind of wrong file.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use lucarne_ct::{Fingerprint, SignedEntryRef, TileLeafRef};
use lucarne_ctread::{
    Problem, ReadError, Source, SourceError, TileContent, VerifiedTree, issuer, load_edge, tile,
};
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile};
use parking_lot::Mutex;

/// The files of a log, each of which can be changed.
#[derive(Default)]
struct Files {
    files: Mutex<HashMap<String, Vec<u8>>>,
    /// Whether the source refuses requests for missing files.
    refuses: bool,
    /// The files that were read.
    reads: Mutex<Vec<String>>,
}

#[async_trait]
impl Source for Files {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        self.reads.lock().push(path.to_owned());
        // Another reader continues, as during a request.
        tokio::task::yield_now().await;
        match self.files.lock().get(path).cloned() {
            None if self.refuses => Err(SourceError::Refused(Arc::new(std::fmt::Error))),
            file => Ok(file.map(Bytes::from)),
        }
    }
}

fn entry(index: u64, tile: &mut Vec<u8>) -> Hash {
    let [_, _, _, index_bytes @ ..] = index.to_be_bytes();
    let extensions = [&[0, 0, 5][..], &index_bytes].concat();
    let leaf = TileLeafRef {
        timestamp: 1000 + index,
        signed: SignedEntryRef::X509 {
            certificate: b"certificate",
        },
        extensions: &extensions,
        precertificate: None,
        index,
        fingerprints: Default::default(),
    };
    leaf.encode(tile);
    leaf.leaf_hash(&mut Vec::new())
}

impl Files {
    /// Publishes the log of `size` entries. Earlier partial tiles are removed.
    fn grow(&self, size: u64) {
        let leaves: Vec<Hash> = (0..size).map(|n| entry(n, &mut Vec::new())).collect();
        let mut edge = RightEdge::new();
        let tiles = edge.append(&leaves).into_iter();
        let mut files: HashMap<_, _> = tiles.map(|(tile, bytes)| (tile.path(), bytes)).collect();
        for index in 0..size.div_ceil(TILE_WIDTH) {
            let tile = Tile::widest(Level::Data, index, size).unwrap();
            let mut bytes = Vec::new();
            for index in tile.start_leaf()..tile.end_leaf() {
                entry(index, &mut bytes);
            }
            files.insert(tile.path(), bytes);
        }
        *self.files.lock() = files;
    }

    fn put(&self, path: &str, bytes: Vec<u8>) {
        self.files.lock().insert(path.to_owned(), bytes);
    }

    fn flip(&self, path: &str, place: usize) {
        let mut files = self.files.lock();
        files.get_mut(path).unwrap()[place] ^= 1;
    }
}

/// Returns the tree of `size`, whose right edge is read.
async fn tree(files: &Files, size: u64) -> VerifiedTree {
    let tree = VerifiedTree::default();
    tree.advance(load_edge(files, size).await.unwrap());
    tree
}

/// Reads all data tiles from the entry `first` on, and compares them with the tree. Returns the
/// number of entries.
async fn read(files: &Files, tree: &VerifiedTree, first: u64) -> Result<usize, ReadError> {
    let (mut entries, size) = (0, tree.edge().size());
    for index in first / TILE_WIDTH..size.div_ceil(TILE_WIDTH) {
        let data = Tile::widest(Level::Data, index, size).unwrap();
        let content = TileContent::parse(data, &tile(files, data).await?)?;
        content.compare(data, &tree.hashes(files, 0, index).await?)?;
        entries += content.leaves.len();
    }
    Ok(entries)
}

#[tokio::test]
async fn all_entries_of_a_growing_log_are_verified() {
    let files = Files::default();
    let mut earlier = VerifiedTree::default().edge();
    for size in [0, 1, 255, 256, 300, 300, 1000, 70_000] {
        files.grow(size);
        let tree = tree(&files, size).await;
        let root = tree.root_at(&files, earlier.size()).await.unwrap();
        assert_eq!(root, earlier.root());
        assert_eq!(read(&files, &tree, 0).await.unwrap(), size as usize);
        earlier = tree.edge();
    }
}

#[tokio::test]
async fn a_full_tile_replaces_a_missing_partial_tile() {
    for refuses in [false, true] {
        let files = Files {
            refuses,
            ..Files::default()
        };
        files.grow(300);
        let tree = tree(&files, 300).await;
        files.grow(600);
        assert_eq!(read(&files, &tree, 256).await.unwrap(), 44);
        files.files.lock().remove("tile/data/001");
        let error = read(&files, &tree, 256).await.unwrap_err();
        assert_eq!(error.path, "tile/data/001.p/44");
        let is_right = match error.problem {
            Problem::Missing => !refuses,
            Problem::Source(SourceError::Refused(_)) => refuses,
            _ => false,
        };
        assert!(is_right, "{:?}", error.problem);
    }
}

#[tokio::test]
async fn a_tree_that_is_too_large_is_refused() {
    let large = load_edge(&Files::default(), 1 << 41).await.unwrap_err();
    assert_eq!(large.to_string(), "tile/5/000.p/2: is missing");
}

#[tokio::test]
async fn wrong_tiles_are_refused() {
    let read = async |change: fn(&Files)| {
        let files = Files::default();
        files.grow(600);
        let tree = tree(&files, 600).await;
        change(&files);
        read(&files, &tree, 0).await.unwrap_err().to_string()
    };
    let expected = "tile/0/000: the hashes do not lead to the tile above it";
    assert_eq!(read(|files| files.flip("tile/0/000", 40)).await, expected);
    let expected = "tile/0/001: expected 8192 bytes, found 4";
    assert_eq!(
        read(|files| files.put("tile/0/001", vec![0; 4])).await,
        expected
    );
    let expected = "tile/data/001: entry 256 does not hash to the tree's leaf";
    assert_eq!(read(|files| files.flip("tile/data/001", 7)).await, expected);
    let error = read(|files| files.put("tile/data/002.p/88", vec![0; 20])).await;
    assert!(
        error.starts_with("tile/data/002.p/88: entry 512: "),
        "{error}"
    );
    let error = read(|files| files.put("tile/data/000", vec![0x1f, 0x8b, 8])).await;
    assert!(error.starts_with("tile/data/000: gzip: "), "{error}");
}

#[tokio::test]
async fn an_issuer_has_the_fingerprint_of_its_name() {
    let files = Files::default();
    let fingerprint = Fingerprint::of(b"issuer");
    let path = format!("issuer/{fingerprint}");
    let missing = issuer(&files, fingerprint).await.unwrap_err().to_string();
    assert_eq!(missing, format!("{path}: is missing"));
    files.put(&path, b"another".to_vec());
    let wrong = issuer(&files, fingerprint).await.unwrap_err();
    assert!(matches!(wrong.problem, Problem::Issuer(_)));
    files.put(&path, b"issuer".to_vec());
    assert_eq!(issuer(&files, fingerprint).await.unwrap(), "issuer");
}

#[tokio::test]
async fn readers_share_the_read_of_a_tile_that_they_all_need() {
    let files = Files::default();
    files.grow(70_000);
    let tree = tree(&files, 70_000).await;
    files.reads.lock().clear();
    let tiles = (0..8).map(|index| tree.hashes(&files, 0, index));
    join_all(tiles)
        .await
        .into_iter()
        .for_each(|read| drop(read.unwrap()));
    let reads = files.reads.lock();
    let parents = reads.iter().filter(|path| *path == "tile/1/000");
    assert_eq!((parents.count(), reads.len()), (1, 9), "{reads:?}");
}
