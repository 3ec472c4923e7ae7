//! The scrubber of a running log finds damage in files that clients do not read.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lucarne_ct::TileLeafRef;
use lucarne_ctread::gunzip;
use lucarne_log::{Check, Log, ReadError, ScrubConfig};
use lucarne_storage::memory::Operation;
use lucarne_storage::{AssetError, Assets};
use lucarne_testkit::eventually;
use lucarne_tlog::Tile;

use crate::fixture::{Submission, World, submit_all};

/// Starts a log of more than one tile whose scrubber runs without pauses; returns the paths of its
/// files as well.
async fn scrubbed() -> (World, Arc<Log>, Vec<String>) {
    let rate = NonZeroU64::new(1 << 40).unwrap();
    scrubbed_by(|position| ScrubConfig::new(rate, position)).await
}

async fn scrubbed_by(config: impl Fn(PathBuf) -> ScrubConfig) -> (World, Arc<Log>, Vec<String>) {
    let mut world = World::new().await;
    let position = world.cache.path().join("scrub");
    world.config.scrub = Some(ScrubConfig {
        delay: Duration::ZERO,
        interval: Duration::from_millis(20),
        ..config(position)
    });
    let log = world.run().await;
    let submissions: Vec<_> = (0..300).map(Submission::number).collect();
    submit_all(&log, &submissions).await;
    let size = log.published().unwrap().size;
    let current = |path: &String| match Tile::parse(path) {
        Ok(tile) => Tile::widest(tile.level(), tile.index(), size) == Some(tile),
        Err(_) => path.starts_with("issuer/"),
    };
    let paths = world.assets.paths().into_iter().filter(current).collect();
    (world, log, paths)
}

async fn check(log: &Log, name: &str) -> Check {
    let checks = log.health().await.checks;
    checks.into_iter().find(|check| check.name == name).unwrap()
}

/// Waits until `wished` accepts the check of the log's files.
async fn files(log: &Log, wished: impl Fn(&Check) -> bool) -> Check {
    let mut said = check(log, "files").await;
    eventually("the check of the files is as wished", async || {
        said = check(log, "files").await;
        wished(&said)
    })
    .await;
    said
}

async fn read(log: &Log, path: &str) -> Result<(), ReadError> {
    match path.strip_prefix("issuer/") {
        Some(name) => log.issuer(&name.parse().unwrap()).await.map(drop),
        None => log.tile(Tile::parse(path).unwrap()).await.map(drop),
    }
}

fn flipped(bytes: &Bytes) -> Bytes {
    let mut bytes = bytes.to_vec();
    // The middle is after the header of gzip, where each bit matters.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bytes.into()
}

/// Flips a bit of a file, and waits until the log has restored the file from its own data.
async fn restored(world: &World, path: &str) {
    let good = world.assets.get(path).await.unwrap().unwrap();
    world.assets.tamper(path, Some(flipped(&good)));
    eventually("the file is restored", async || {
        let found = world.assets.get(path).await.unwrap().unwrap();
        gunzip(found).is_ok_and(|found| found == gunzip(good.clone()).unwrap())
    })
    .await;
    let kept = format!(".lucarne/damaged/{path}-1");
    assert!(world.assets.paths().contains(&kept), "{path} is not kept");
}

/// Each kind of file is restored without a read by a client. If the file is damaged again, health
/// reports its path, reads fail, and they succeed again after the file is restored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rot_that_nobody_reads_is_restored_or_named_and_not_served() {
    let (world, log, paths) = scrubbed().await;
    files(&log, |check| check.ok).await;
    assert!(paths.len() > 5, "{paths:?}");
    for path in &paths {
        restored(&world, path).await;
        files(&log, |check| check.ok).await;
        let good = world.assets.get(path).await.unwrap().unwrap();
        for bad in [Some(flipped(&good)), None] {
            world.assets.tamper(path, bad.clone());
            let said = files(&log, |check| !check.ok).await;
            assert!(said.detail.contains(path.as_str()), "{path}: {said:?}");
            // The right edge, with the content of partial tiles, is in memory.
            if !path.contains(".p/") {
                let error = read(&log, path).await.unwrap_err();
                assert!(
                    matches!(error, ReadError::Damaged { .. }),
                    "{path}: {error}"
                );
            }
            world.assets.tamper(path, Some(good.clone()));
            files(&log, |check| check.ok).await;
            read(&log, path).await.unwrap();
        }
    }
    let said = check(&log, "scrub").await;
    assert!(
        said.ok && said.detail.contains("last whole pass"),
        "{said:?}"
    );
    log.shutdown().await;
}

/// Samples find damaged tiles as well, and a listing finds missing ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_find_what_is_rotten_or_gone() {
    let (world, log, paths) = scrubbed_by(|position| ScrubConfig {
        bytes_per_second: NonZeroU64::new(1 << 40).unwrap(),
        ..ScrubConfig::of_samples(position)
    })
    .await;
    for path in paths.iter().filter(|path| path.starts_with("tile/")) {
        if path.starts_with("tile/names/") {
            continue;
        }
        restored(&world, path).await;
        files(&log, |check| check.ok).await;
        let good = world.assets.get(path).await.unwrap().unwrap();
        for bad in [Some(flipped(&good)), None] {
            world.assets.tamper(path, bad);
            let said = files(&log, |check| !check.ok).await;
            assert!(said.detail.contains(path.as_str()), "{path}: {said:?}");
            world.assets.tamper(path, Some(good.clone()));
            files(&log, |check| check.ok).await;
        }
    }
    let said = check(&log, "scrub").await;
    assert!(said.ok && said.detail.contains("random tile"), "{said:?}");
    log.shutdown().await;
}

/// The report of a wrong hash has the index of its entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_wrong_byte_is_named() {
    let (world, log, _) = scrubbed().await;
    // A file is restored only once, and then stays damaged.
    restored(&world, "tile/0/000").await;
    let mut bytes = world
        .assets
        .get("tile/0/000")
        .await
        .unwrap()
        .unwrap()
        .to_vec();
    bytes[32 * 77 + 5] ^= 0x10;
    world.assets.tamper("tile/0/000", Some(bytes.into()));
    let said = files(&log, |check| check.detail.contains("byte")).await;
    let place = format!("byte {}, entry 77", 32 * 77 + 5);
    assert!(said.detail.contains(&place), "{said:?}");
    log.shutdown().await;
}

/// Bit rot that no hash covers: in an uncompressed tile, as TesseraCT stores tiles, a
/// precertificate has a flipped bit. The tile is reported and not served until it is restored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rot_that_no_hash_covers_is_named_and_not_served() {
    let (world, log, _) = scrubbed().await;
    let path = "tile/data/000";
    let stored = world.assets.get(path).await.unwrap().unwrap();
    let right = gunzip(stored).unwrap();
    let (mut rest, mut at) = (&right[..], None);
    while at.is_none() {
        let leaf = TileLeafRef::read(&mut rest).unwrap();
        at = leaf
            .precertificate
            .map(|der| der.as_ptr_range().end as usize);
    }
    let mut wrong = right.to_vec();
    wrong[at.unwrap() - right.as_ptr() as usize - 5] ^= 4;
    world.assets.tamper(path, Some(wrong.clone().into()));
    eventually("the file is restored", async || {
        let found = world.assets.get(path).await.unwrap().unwrap();
        gunzip(found).unwrap() == right
    })
    .await;
    files(&log, |check| check.ok).await;
    for _ in 0..2 {
        world.assets.tamper(path, Some(wrong.clone().into()));
        let said = files(&log, |check| !check.ok).await;
        assert!(said.detail.contains("signature"), "{said:?}");
        let error = read(&log, path).await.unwrap_err();
        assert!(matches!(error, ReadError::Damaged { .. }), "{error}");
        world.assets.tamper(path, Some(right.clone()));
        files(&log, |check| check.ok).await;
        read(&log, path).await.unwrap();
    }
    log.shutdown().await;
}

/// An unavailable store is not bit rot: no file is reported, and the scrubber reports that it
/// cannot read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_answer_is_not_taken_for_rot() {
    let (world, log, _) = scrubbed().await;
    files(&log, |check| check.ok).await;
    world.assets.inject(|operation| {
        let failed = AssetError::Poisoned {
            location: "memory".into(),
            reason: "it is away".into(),
        };
        (operation == Operation::Get).then_some(failed)
    });
    // Until its first pass, the scrubber can report that there is no checkpoint.
    eventually("the scrubber reports the store", async || {
        let said = check(&log, "scrub").await;
        !said.ok && said.detail.contains("it is away")
    })
    .await;
    assert!(check(&log, "files").await.ok);
    log.shutdown().await;
}

/// Readers get names tiles that the log computes, but other servers of the directory do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_names_tile_that_cannot_be_restored_fails_the_check() {
    let (world, log, _) = scrubbed().await;
    files(&log, |check| check.ok).await;
    world.assets.inject(|operation| {
        let failed = AssetError::Immutable {
            path: "tile/names/000".into(),
        };
        (operation == Operation::Replace).then_some(failed)
    });
    let path = "tile/names/000";
    let right = world.assets.get(path).await.unwrap().unwrap();
    world.assets.tamper(path, Some(flipped(&right)));
    let said = files(&log, |check| !check.ok).await;
    assert!(said.detail.contains(path), "{said:?}");
    world.assets.heal();
    files(&log, |check| check.ok).await;
    log.shutdown().await;
}
