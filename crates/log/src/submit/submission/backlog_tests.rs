//! Submissions while the dedup index is being read from the tiles.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_mint::testing::Pki;
use lucarne_storage::{Asset, AssetError, Assets, MemoryAssets, ReadAssets, Repairs, Stats};
use lucarne_testkit::{eventually, until};
use parking_lot::Mutex;

use super::tests::{Logged, World, answered, begun, fill, settled, started, stop};
use super::*;
use crate::index::dedup::tests::earlier;
use crate::index::evidence;
use crate::log::Log;
use crate::log::health::Prober;
use crate::shared::Shared;

/// Two full tiles and a partial tile.
const ENTRIES: usize = 600;

/// Storage that withholds the data tiles below a number, and records the requested tiles.
struct Withholding {
    assets: MemoryAssets,
    below: AtomicU64,
    asked: Mutex<Vec<u64>>,
}

impl Withholding {
    fn new(assets: &MemoryAssets, below: u64) -> Arc<Self> {
        Arc::new(Withholding {
            assets: assets.clone(),
            below: AtomicU64::new(below),
            asked: Mutex::default(),
        })
    }

    fn asked(&self) -> Vec<u64> {
        std::mem::take(&mut self.asked.lock())
    }
}

#[async_trait]
impl Repairs for Withholding {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        self.assets.replace(asset).await
    }
}

#[async_trait]
impl Assets for Withholding {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError> {
        self.assets.stage(new_size, record).await
    }

    async fn staged(&self) -> Result<Vec<Bytes>, AssetError> {
        self.assets.staged().await
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError> {
        self.assets.publish(assets).await
    }

    async fn settle(&self, size: u64) -> Result<(), AssetError> {
        self.assets.settle(size).await
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        let number = path.strip_prefix("tile/data/").map(str::parse);
        if let Some(Ok(number)) = number {
            self.asked.lock().push(number);
            if number < self.below.load(Ordering::SeqCst) {
                return Err(AssetError::Silent {
                    directory: self.location(),
                });
            }
        }
        self.assets.get(path).await
    }

    async fn remove_partials(&self, tiles: &[String]) -> Result<(), AssetError> {
        self.assets.remove_partials(tiles).await
    }

    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, AssetError> {
        self.assets.partials(tile_path).await
    }

    async fn headroom(&self) -> Result<Option<u64>, AssetError> {
        self.assets.headroom().await
    }

    fn stats(&self) -> &Stats {
        self.assets.stats()
    }

    fn location(&self) -> String {
        self.assets.location()
    }
}

/// Opens a log whose index is read while the log is open, even if it is small.
async fn opened(world: &World, storage: &Arc<Withholding>) -> Arc<Shared> {
    let mut log = world.shared(ReadAssets::uncached(storage.clone()));
    log.index.read_before_open = 0;
    let log = begun(log);
    assert_eq!(settled(&log, started).await, State::Running);
    log
}

/// Creates a log that has lost its index.
async fn without_index(cache: &Path) -> (World, Vec<Logged>) {
    let world = World::new(cache).await;
    let log = world.start();
    settled(&log, started).await;
    let logged = fill(&log, 0..ENTRIES).await;
    stop(&log).await;
    std::fs::remove_dir_all(cache).unwrap();
    (world, logged)
}

fn left(log: &Shared) -> u64 {
    let session = log.submissions.session.load_full().unwrap();
    session.dedup.backlog().entries()
}

async fn until_left(log: &Shared, entries: u64) {
    let what = format!("{entries} entries are left to be read");
    until(&what, || left(log) == entries).await;
}

async fn dedup_check(log: &Arc<Shared>) -> crate::status::state::Check {
    let health = Prober::default().health(log, State::Running).await;
    let mut checks = health.checks.into_iter();
    checks.find(|check| check.name == "dedup").unwrap()
}

/// Creates a chain whose certificate becomes valid this many days from now.
fn chain_from(name: &str, days: i64) -> Chain {
    let pki = Pki::shared();
    let mut leaf = pki.leaf(name);
    leaf.not_before = leaf.not_before.plus_days(days);
    let issued = pki.p256.issue(&leaf).unwrap();
    Chain::from_ders(pki.p256.chain(issued).certificates()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_yet_is_refused_and_the_rest_taken() {
    let cache = tempfile::tempdir().unwrap();
    let (world, logged) = without_index(&cache.path().join("dedup")).await;
    let storage = Withholding::new(&world.assets, 1);
    let log = opened(&world, &storage).await;
    until_left(&log, 256).await;

    for entry in logged.iter().step_by(7) {
        let is_read = entry.place.index >= 256;
        assert_eq!(answered(&log, entry).await, is_read, "{:?}", entry.place);
    }
    let refused = log
        .submissions
        .submit(EntryKind::X509, chain_from("new.example", 0))
        .await;
    let Err(SubmitError::Unavailable(Unavailable::IndexUnread {
        retry_after_seconds,
    })) = refused
    else {
        panic!("it may be in the first tile");
    };
    assert!(
        (1..=3600).contains(&retry_after_seconds),
        "{retry_after_seconds}"
    );
    // The unread entries were logged before the `notBefore` of this certificate.
    let young = chain_from("young.example", 3);
    let sct = log
        .submissions
        .submit(EntryKind::X509, young.clone())
        .await
        .unwrap();
    assert_eq!(sct.index().unwrap(), ENTRIES as u64);
    let again = log
        .submissions
        .submit(EntryKind::X509, young.clone())
        .await
        .unwrap();
    assert_eq!(again.index().unwrap(), ENTRIES as u64);

    let check = dedup_check(&log).await;
    assert!(!check.ok, "{check:?}");
    assert!(check.detail.contains("256 of 60"), "{check:?}");
    assert!(check.detail.contains("reading is suspended"), "{check:?}");
    assert_eq!(log.metrics.dedup_backlog.get(), 256);
    assert!(log.metrics.dedup_indexed.get() >= 344);

    storage.below.store(0, Ordering::SeqCst);
    until_left(&log, 0).await;
    for entry in &logged {
        assert!(answered(&log, entry).await, "{:?}", entry.place);
    }
    let again = log
        .submissions
        .submit(EntryKind::X509, young)
        .await
        .unwrap();
    assert_eq!(again.index().unwrap(), ENTRIES as u64);
    let new = log
        .submissions
        .submit(EntryKind::X509, chain_from("new.example", 0))
        .await;
    assert_eq!(new.unwrap().index().unwrap(), ENTRIES as u64 + 1);
    let check = dedup_check(&log).await;
    assert!(check.ok, "{check:?}");
    stop(&log).await;
}

/// Reading continues after a restart where it stopped, and covers the entries that rounds have
/// added and that a crash has removed from the index.
#[tokio::test(flavor = "multi_thread")]
async fn reading_goes_on_after_a_restart() {
    let cache = tempfile::tempdir().unwrap();
    let (world, mut logged) = without_index(&cache.path().join("dedup")).await;
    let storage = Withholding::new(&world.assets, 1);
    let log = opened(&world, &storage).await;
    until_left(&log, 256).await;
    let young = chain_from("young.example", 3);
    let sct = log
        .submissions
        .submit(EntryKind::X509, young.clone())
        .await
        .unwrap();
    stop(&log).await;
    drop(log);

    storage.asked();
    let log = opened(&world, &storage).await;
    until_left(&log, 256).await;
    assert!(
        storage.asked().iter().all(|tile| *tile == 0),
        "it begins anew"
    );
    let again = log
        .submissions
        .submit(EntryKind::X509, young)
        .await
        .unwrap();
    assert_eq!(again.index().unwrap(), sct.index().unwrap());
    storage.below.store(0, Ordering::SeqCst);
    until_left(&log, 0).await;
    for entry in &logged {
        assert!(answered(&log, entry).await, "{:?}", entry.place);
    }
    logged.extend(fill(&log, ENTRIES..ENTRIES + 5).await);
    stop(&log).await;
    drop(log);
    let log = world.start();
    assert_eq!(settled(&log, started).await, State::Running);
    for entry in &logged {
        assert!(answered(&log, entry).await, "{:?}", entry.place);
    }
    assert_eq!(log.reader.published().unwrap().size, ENTRIES as u64 + 6);
    stop(&log).await;
}

/// The index of an earlier version stays until this version needs it no longer.
#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_index_is_removed_when_the_new_index_is_complete() {
    let cache = tempfile::tempdir().unwrap();
    let (world, logged) = without_index(&cache.path().join("index")).await;
    let (earlier, lock) = earlier::create(cache.path());
    let storage = Withholding::new(&world.assets, 1);
    let seen = evidence::seen(&world.config).await.unwrap();
    assert_eq!(seen.unwrap().path, earlier);
    // The process of the earlier version still runs while the index is built.
    lock.lock().unwrap();
    assert!(Log::earlier_index_in_use(&world.config).await.unwrap());
    drop(lock);
    assert!(!Log::earlier_index_in_use(&world.config).await.unwrap());
    for below in [1, 0] {
        let log = opened(&world, &storage).await;
        until_left(&log, 256).await;
        assert!(earlier.join("tables/0000000001").exists());
        storage.below.store(below, Ordering::SeqCst);
        if below == 0 {
            until_left(&log, 0).await;
            until("the earlier index is removed", || !earlier.exists()).await;
            for entry in &logged {
                assert!(answered(&log, entry).await, "{:?}", entry.place);
            }
        }
        stop(&log).await;
    }
}

/// A damaged tile in the middle of the backlog becomes a gap, and the other tiles are read.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotten_tile_does_not_keep_the_rest_from_being_read() {
    let cache = tempfile::tempdir().unwrap();
    let (world, logged) = without_index(&cache.path().join("dedup")).await;
    let path = "tile/data/001";
    let whole = world.assets.get(path).await.unwrap();
    world.assets.tamper(path, None);
    let storage = Withholding::new(&world.assets, 0);
    let log = opened(&world, &storage).await;
    until_left(&log, 0).await;
    let mut unknown = 0;
    for entry in &logged {
        unknown += u64::from(!answered(&log, entry).await);
    }
    assert_eq!(unknown, 256);
    let gaps = log
        .submissions
        .session
        .load_full()
        .unwrap()
        .dedup
        .gaps
        .all();
    assert_eq!(gaps.len(), 1);
    let after = logged
        .iter()
        .find(|entry| entry.place.index == 512)
        .unwrap();
    assert_eq!(gaps[0].latest_ms, after.place.timestamp_ms);
    let young = chain_from("young.example", 3);
    log.submissions
        .submit(EntryKind::X509, young)
        .await
        .unwrap();
    world.assets.tamper(path, whole);
    for entry in &logged {
        eventually("the entry is answered", async || {
            answered(&log, entry).await
        })
        .await;
    }
    stop(&log).await;
}
