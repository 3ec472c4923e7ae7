//! A client follows a log in memory, and finds each kind of wrong file.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use lucarne_ct::{CheckpointVerifier, Fingerprint, LogKey, SignedEntryRef, TileLeafRef};
use lucarne_ctread::{
    Client, Problem, ReadError, Source, SourceError, VerifiedTree, issuer, load_edge,
};
use lucarne_tlog::{Hash, Level, RightEdge, TILE_WIDTH, Tile};
use parking_lot::Mutex;

const ORIGIN: &str = "log.example/2026h2";

/// The files of a log, each of which can be changed.
struct Files {
    key: LogKey,
    files: Mutex<HashMap<String, Vec<u8>>>,
    /// Whether the source refuses requests for missing files.
    refuses: bool,
    /// The files that were read.
    reads: Mutex<Vec<String>>,
    /// The number of reads at the same time: now, and the largest.
    concurrent: Mutex<(usize, usize)>,
}

#[async_trait]
impl Source for Files {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        self.reads.lock().push(path.to_owned());
        {
            let (now, most) = &mut *self.concurrent.lock();
            *now += 1;
            *most = (*most).max(*now);
        }
        // Another reader continues, as during a request.
        tokio::task::yield_now().await;
        self.concurrent.lock().0 -= 1;
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
    fn new() -> Self {
        Files {
            key: LogKey::from_seed(&[7; 32]).unwrap(),
            files: Mutex::default(),
            refuses: false,
            reads: Mutex::default(),
            concurrent: Mutex::default(),
        }
    }

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
        self.sign(size, &edge.root());
    }

    fn sign(&self, size: u64, root: &Hash) {
        let note = self.key.sign_checkpoint(ORIGIN, size, root, 5000 + size);
        self.put("checkpoint", note.unwrap().into_bytes());
    }

    fn put(&self, path: &str, bytes: Vec<u8>) {
        self.files.lock().insert(path.to_owned(), bytes);
    }

    fn flip(&self, path: &str, place: usize) {
        let mut files = self.files.lock();
        files.get_mut(path).unwrap()[place] ^= 1;
    }
}

fn client(files: &Arc<Files>) -> Client {
    let verifier = CheckpointVerifier::new(ORIGIN, files.key.public_key_spki()).unwrap();
    Client::new(files.clone(), verifier)
}

/// Returns the indexes of all entries from `first` on.
async fn read(client: &Client, first: u64) -> Result<Vec<u64>, ReadError> {
    let mut tiles = pin!(client.entries(first));
    let mut indexes = Vec::new();
    while let Some(tile) = tiles.next().await {
        let tile = tile?;
        assert_eq!(tile.content.leaves.len(), usize::from(tile.tile.width()));
        indexes.extend(tile.entries().map(|entry| entry.leaf.index));
    }
    Ok(indexes)
}

#[tokio::test]
async fn a_client_follows_a_growing_log() {
    let files = Arc::new(Files::new());
    let mut log = client(&files);
    let mut next = 0;
    for size in [0, 1, 255, 256, 300, 300, 1000, 70_000] {
        files.grow(size);
        let (checkpoint, timestamp) = log.advance().await.unwrap();
        assert_eq!((checkpoint.size, timestamp), (size, 5000 + size));
        assert_eq!(read(&log, next).await.unwrap(), Vec::from_iter(next..size));
        next = size;
    }
    assert_eq!(read(&log, 69_999).await.unwrap(), [69_999]);
    assert!(read(&log, 70_000).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_full_tile_replaces_a_missing_partial_tile() {
    for refuses in [false, true] {
        let mut files = Files::new();
        files.refuses = refuses;
        let files = Arc::new(files);
        files.grow(300);
        let mut log = client(&files);
        log.advance().await.unwrap();
        files.grow(600);
        assert_eq!(read(&log, 250).await.unwrap(), Vec::from_iter(250..300));
        files.files.lock().remove("tile/data/001");
        let error = read(&log, 250).await.unwrap_err();
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
async fn wrong_checkpoints_are_refused() {
    let files = Arc::new(Files::new());
    files.grow(300);
    let mut log = client(&files);
    log.advance().await.unwrap();
    let mut refused = async |size, root: Hash| {
        files.sign(size, &root);
        log.advance().await.unwrap_err().to_string()
    };
    let smaller = refused(299, Hash([1; 32])).await;
    assert_eq!(
        smaller,
        "checkpoint: the log went back from size 300 to size 299"
    );
    let other = refused(300, Hash([1; 32])).await;
    assert!(
        other.contains("of size 300 do not lead to its root"),
        "{other}"
    );
    let large = refused(1 << 41, Hash([1; 32])).await;
    assert_eq!(large, "tile/5/000.p/2: is missing");
    // A larger tree of another history, with all its tiles.
    let mut edge = RightEdge::new();
    let leaves: Vec<Hash> = (0..400).map(|n| entry(n + 1, &mut Vec::new())).collect();
    for (tile, bytes) in edge.append(&leaves) {
        files.put(&tile.path(), bytes);
    }
    let forked = refused(400, edge.root()).await;
    assert!(
        forked.contains("of size 300 do not lead to its root"),
        "{forked}"
    );
    let unsigned = async {
        files.put("checkpoint", b"no note".to_vec());
        log.advance().await.unwrap_err()
    };
    assert!(matches!(unsigned.await.problem, Problem::Checkpoint(_)));
}

#[tokio::test]
async fn a_tree_that_is_too_large_is_refused() {
    let files = Files::new();
    files.put("tile/5/000.p/2", vec![0; 64]);
    let large = load_edge(&files, 1 << 41).await.unwrap_err();
    assert!(matches!(large.problem, Problem::Size(_)), "{large}");
}

#[tokio::test]
async fn wrong_tiles_are_refused() {
    let read = async |change: fn(&Files)| {
        let files = Arc::new(Files::new());
        files.grow(600);
        let mut log = client(&files);
        log.advance().await.unwrap();
        change(&files);
        read(&log, 0).await.unwrap_err().to_string()
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
    let files = Files::new();
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
    let files = Files::new();
    files.grow(70_000);
    let tree = VerifiedTree::default();
    tree.advance(load_edge(&files, 70_000).await.unwrap());
    let hashes = |index| tree.hashes(&files, 0, index);
    let parent = files.files.lock().remove("tile/1/000").unwrap();
    *files.concurrent.lock() = (0, 0);
    for read in join_all((0..8).map(hashes)).await {
        assert_eq!(read.unwrap_err().to_string(), "tile/1/000: is missing");
    }
    // Readers that waited for the first read do not wait for each other.
    assert_eq!(*files.concurrent.lock(), (0, 7));
    files.put("tile/1/000", parent);
    files.reads.lock().clear();
    for read in join_all((0..8).map(hashes)).await {
        read.unwrap();
    }
    let reads = files.reads.lock();
    let parents = reads.iter().filter(|path| *path == "tile/1/000");
    assert_eq!((parents.count(), reads.len()), (1, 9), "{reads:?}");
}
