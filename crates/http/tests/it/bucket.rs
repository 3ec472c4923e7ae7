//! The monitoring API of a log in a bucket on a real server: the cases of
//! `conformance/monitoring.rs`, and the number of requests of a read.

// The same cases again, with the `demo` of this file.
#[allow(clippy::duplicate_mod)]
#[path = "conformance/monitoring.rs"]
mod monitoring;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::support::{Server, TestLog};
use futures_util::future::join_all;
use lucarne_http::Limits;
use lucarne_storage::conformance::s3_config;
use lucarne_storage::{
    DiskCache, ObjectAssets, ObjectStoreConfig, Observer, Operation, Outcome, ReadAssets,
};
use lucarne_testkit::{in_time, until};
use tokio::sync::watch;

/// A bucket with its cache, and the number of objects read from it.
struct Place {
    config: ObjectStoreConfig,
    cache: tempfile::TempDir,
    reads: Arc<Reads>,
    _bucket: lucarne_testkit::Bucket,
}

#[derive(Default)]
struct Reads(AtomicUsize);

impl Observer for Reads {
    fn request(&self, operation: Operation, _: Outcome, _: Duration) {
        if operation == Operation::Get {
            self.0.fetch_add(1, SeqCst);
        }
    }
}

/// Becomes `true` when the files of an earlier process have been found in a cache.
struct Scanned(watch::Sender<bool>);

impl Observer for Scanned {
    fn cache_holds(&self, _: u64) {
        self.0.send_replace(true);
    }
}

impl Place {
    async fn new() -> Self {
        let bucket = lucarne_testkit::Bucket::versitygw().await.unwrap();
        let store = &bucket.store;
        let mut config = s3_config(
            &store.endpoint,
            store.region,
            [store.access_key, store.secret_key],
            &bucket.name,
            "log/",
        );
        // A hedged request on a slow machine must not count as another read.
        config.policy.hedge = None;
        Place {
            config,
            cache: tempfile::tempdir().unwrap(),
            reads: Arc::default(),
            _bucket: bucket,
        }
    }

    async fn open(&self, cache: &Path) -> ReadAssets {
        let reads: Arc<dyn Observer> = self.reads.clone();
        let assets = ObjectAssets::open_observed(&self.config, reads)
            .await
            .unwrap();
        let (scanned, mut scans) = watch::channel(false);
        let cache = Arc::new(DiskCache::new(cache, 64 << 20, Arc::new(Scanned(scanned))));
        cache.start();
        in_time("the cache is read", scans.wait_for(|scanned| *scanned))
            .await
            .unwrap();
        ReadAssets::cached(Arc::new(assets), cache)
    }

    fn reads(&self) -> usize {
        self.reads.0.load(SeqCst)
    }
}

/// Returns a log of this number of entries whose readers have nothing in memory.
async fn in_bucket(place: &Place, entries: usize) -> (TestLog, Server) {
    let test = TestLog::start("demo").await;
    // The lock has the empty tree, so that nothing must be moved.
    let test = test.moved(place.open(place.cache.path()).await).await;
    test.fill(entries).await;
    let test = test.moved(place.open(place.cache.path()).await).await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    (test, server)
}

/// The log for the shared cases.
async fn demo(entries: usize) -> (TestLog, Server) {
    let place = Place::new().await;
    let (mut test, server) = in_bucket(&place, entries).await;
    test.kept = Some(Box::new(place));
    (test, server)
}

const TILES: [&str; 2] = ["/demo/tile/0/000", "/demo/tile/data/000"];

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_of_a_tile_are_one_request_and_later_ones_none() {
    let place = Place::new().await;
    let (test, server) = in_bucket(&place, 300).await;
    for tile in TILES {
        let before = place.reads();
        let all = join_all((0..20).map(|_| server.get(tile))).await;
        assert!(all.iter().all(|answer| answer.status == 200), "{tile}");
        assert!(
            all.iter().all(|answer| answer.body == all[0].body),
            "{tile}"
        );
        assert_eq!(place.reads() - before, 1, "{tile}");
    }
    // A partial tile is cut from the full tile in memory.
    let before = place.reads();
    assert_eq!(
        server.get("/demo/tile/0/000.p/17").await.body.len(),
        17 * 32
    );
    assert_eq!(place.reads(), before);

    // Another process reads the tiles from the disk cache.
    let kept = || entries(place.cache.path());
    until("the tiles are on the disk", || kept() == TILES.len()).await;
    let test = test.moved(place.open(place.cache.path()).await).await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let before = place.reads();
    for tile in TILES {
        assert_eq!(server.get(tile).await.status, 200, "{tile}");
    }
    assert_eq!(place.reads(), before);

    // A file with other bytes than were written is not served.
    for file in files(place.cache.path()) {
        let mut bytes = std::fs::read(&file).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&file, bytes).unwrap();
    }
    let right = server.get(TILES[0]).await.body;
    let test = test.moved(place.open(place.cache.path()).await).await;
    let server = Server::start(vec![test.log.clone()], Limits::default()).await;
    let before = place.reads();
    assert_eq!(server.get(TILES[0]).await.body, right);
    assert_eq!(place.reads() - before, 1);
}

fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let list = |directory: &Path| std::fs::read_dir(directory).unwrap();
    list(directory)
        .flat_map(|folder| list(&folder.unwrap().path()))
        .map(|file| file.unwrap().path())
        .collect()
}

/// Returns the number of complete files.
fn entries(directory: &Path) -> usize {
    let whole = |file: &&std::path::PathBuf| !file.to_string_lossy().contains("unfinished-");
    files(directory).iter().filter(whole).count()
}
