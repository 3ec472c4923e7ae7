use lucarne_storage::{Assets, DiskCache, MemoryAssets, ReadAssets};
use lucarne_testkit::{eventually, until};

use super::*;
use crate::status::state::State;
use crate::submit::submission::tests::{World, begun, fill, settled, started, stop};

const ENTRIES: usize = 300;

/// A running log that restores its files, and whose journal has all of its rounds.
async fn running(cache: &tempfile::TempDir) -> (MemoryAssets, Arc<Shared>) {
    let world = World::new(&cache.path().join("dedup")).await;
    let log = world.start();
    assert_eq!(settled(&log, started).await, State::Running);
    fill(&log, 0..ENTRIES).await;
    tokio::spawn(attend(log.clone()));
    (world.assets, log)
}

/// Removes the narrower tiles of the first data tile, as the log does after a while.
fn remove_partials(assets: &MemoryAssets) {
    let is_partial = |path: &String| path.starts_with("tile/data/000.p/");
    for path in assets.paths().into_iter().filter(is_partial) {
        assets.tamper(&path, None);
    }
}

async fn stored(assets: &MemoryAssets, path: &str) -> Option<Bytes> {
    assets.get(path).await.unwrap()
}

/// Flips a bit of each of these files, reads them like the scrubber, and waits until the log has
/// restored them.
async fn rots(assets: &MemoryAssets, log: &Shared, paths: &[&str]) {
    let mut right = Vec::new();
    for path in paths {
        let good = stored(assets, path).await.unwrap();
        let mut bad = good.to_vec();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        assets.tamper(path, Some(bad.into()));
        right.push(good);
    }
    let before = log.metrics.restored_files.get();
    for path in paths {
        let file = FileId::parse(path).unwrap();
        log.reader.distrust(file, "is damaged".into()).await;
    }
    let count = paths.len() as u64;
    until("the files are restored", || {
        log.metrics.restored_files.get() == before + count
    })
    .await;
    until("no file is damaged", || {
        log.reader.tiles().damaged().in_words().is_none()
    })
    .await;
    for (path, right) in paths.iter().zip(right) {
        let restored = stored(assets, path).await.unwrap();
        assert_eq!(gunzip(restored).unwrap(), gunzip(right).unwrap(), "{path}");
        let kept = format!(".lucarne/damaged/{path}-1");
        assert!(assets.paths().contains(&kept), "{path} is not kept");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hashes_are_computed_and_the_right_edge_is_in_memory() {
    let cache = tempfile::tempdir().unwrap();
    let (assets, log) = running(&cache).await;
    // These files can be restored without the journal.
    assets.settle(u64::MAX).await.unwrap();
    for path in [
        "tile/0/000",
        "tile/0/001.p/44",
        "tile/1/000.p/1",
        "tile/data/001.p/44",
    ] {
        rots(&assets, &log, &[path]).await;
    }
    stop(&log).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_has_the_entries_and_the_issuers() {
    let cache = tempfile::tempdir().unwrap();
    let (assets, log) = running(&cache).await;
    remove_partials(&assets);
    let issuers = assets.paths().into_iter();
    let issuers: Vec<_> = issuers.filter(|path| path.starts_with("issuer/")).collect();
    assert!(!issuers.is_empty());
    for issuer in &issuers {
        rots(&assets, &log, &[issuer]).await;
    }
    // Neither tile leads to the other.
    rots(&assets, &log, &["tile/0/000", "tile/data/000"]).await;
    stop(&log).await;
}

/// Storage has lost files that the disk cache of readers still has. The scrubber names them, and
/// the log writes them again.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_storage_lost_are_restored_from_a_cache() {
    let (cache, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let world = World::new(&cache.path().join("dedup")).await;
    let assets = world.assets.clone();
    let store = Arc::new(assets.clone());
    let disk_cache = Arc::new(DiskCache::new(kept.path(), 1 << 24, Arc::new(())));
    disk_cache.start();
    let cached = ReadAssets::cached(store, disk_cache);
    let log = begun(world.shared(cached.clone()));
    assert_eq!(settled(&log, started).await, State::Running);
    fill(&log, 0..ENTRIES).await;
    remove_partials(&assets);
    assets.settle(u64::MAX).await.unwrap();
    let data = "tile/data/000";
    let right = stored(&assets, data).await.unwrap();
    eventually("the cache has the tile", async || {
        // A busy cache drops files, so the test offers the file again.
        cached.keep(data, &right);
        let found = cached.get(data).await.unwrap();
        found.is_some_and(|found| found.is_cached)
    })
    .await;
    assets.tamper(data, None);
    let file = FileId::parse(data).unwrap();
    log.reader.distrust(file, "is missing".into()).await;
    let named = log.reader.tiles().damaged().in_words().unwrap();
    assert!(named.contains(data), "{named}");
    tokio::spawn(attend(log.clone()));
    until("no file is damaged", || {
        log.reader.tiles().damaged().in_words().is_none()
    })
    .await;
    let restored = stored(&assets, data).await.unwrap();
    assert_eq!(gunzip(restored).unwrap(), gunzip(right).unwrap());
    stop(&log).await;
}

/// The log does not restore a file again that was damaged after its restoration, and cannot restore
/// a file without a source. The log reports both files.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_restored_once_and_only_from_right_bytes() {
    let cache = tempfile::tempdir().unwrap();
    let (assets, log) = running(&cache).await;
    remove_partials(&assets);
    rots(&assets, &log, &["tile/0/000"]).await;
    assets.settle(u64::MAX).await.unwrap();
    let data = FileId::parse("tile/data/000").unwrap();
    for path in ["tile/0/000", "tile/data/000"] {
        assets.tamper(path, Some(Bytes::from_static(b"rotten")));
        let file = FileId::parse(path).unwrap();
        log.reader.distrust(file, "is damaged".into()).await;
    }
    assert!(matches!(
        restore(&log, data).await,
        Err(Failure::NoSource(_))
    ));
    // The log has restored a file that was damaged after the two other files.
    let last = "tile/1/000.p/1";
    assets.tamper(last, Some(Bytes::from_static(b"rotten")));
    let before = log.metrics.restored_files.get();
    let file = FileId::parse(last).unwrap();
    log.reader.distrust(file, "is damaged".into()).await;
    until("the last is restored", || {
        log.metrics.restored_files.get() == before + 1
    })
    .await;
    for path in ["tile/0/000", "tile/data/000"] {
        assert_eq!(stored(&assets, path).await.unwrap(), "rotten", "{path}");
        assert!(
            log.reader
                .tiles()
                .damaged()
                .in_words()
                .unwrap()
                .contains(path)
        );
    }
    stop(&log).await;
}

/// The log does not write to storage that was rolled back: a recovery must judge it first.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_to_storage_that_lost_its_checkpoint() {
    let cache = tempfile::tempdir().unwrap();
    let (assets, log) = running(&cache).await;
    stop(&log).await;
    let checkpoint = stored(&assets, "checkpoint").await;
    assets.tamper("checkpoint", None);
    let tile = FileId::parse("tile/0/000").unwrap();
    assets.tamper("tile/0/000", None);
    assert!(matches!(restore(&log, tile).await, Err(Failure::Later(_))));
    assert_eq!(stored(&assets, "tile/0/000").await, None);
    assets.tamper("checkpoint", checkpoint);
    restore(&log, tile).await.unwrap();
    assert!(stored(&assets, "tile/0/000").await.is_some());
}
