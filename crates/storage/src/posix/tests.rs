//! Tests of internal behaviour: the sync method that Linux does not need, failures of a settle, and
//! the timing of syncs.

use async_trait::async_trait;
use tempfile::TempDir;

use super::{Durability, PosixAssets};
use crate::conformance::AssetsBackend;
use crate::{Asset, AssetError, AssetKind, Assets};

struct EachFile(TempDir);

#[async_trait]
impl AssetsBackend for EachFile {
    async fn open(&self) -> Box<dyn Assets> {
        Box::new(open(&self.0, Durability::EachFile))
    }
}

crate::assets_conformance!(EachFile(TempDir::new().unwrap()));

fn open(directory: &TempDir, durability: Durability) -> PosixAssets {
    PosixAssets::open_with(directory.path(), Some(durability)).unwrap()
}

async fn publish(assets: &PosixAssets, path: &str) {
    let asset = Asset::new(path, "x", AssetKind::HashTile);
    assets.publish(vec![asset]).await.unwrap();
}

#[tokio::test]
async fn a_failed_settle_ends_the_journal_until_it_is_reopened() {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory, Durability::EachFile);
    assets.stage(1, "round".into()).await.unwrap();
    publish(&assets, "tile/0/000").await;
    let obstacle = directory.path().join("tile/0");
    std::fs::remove_dir_all(&obstacle).unwrap();
    std::fs::write(&obstacle, "a file where a directory was").unwrap();

    assert!(matches!(assets.settle(1).await, Err(AssetError::Io { .. })));
    let again = assets.settle(1).await;
    assert!(
        matches!(again, Err(AssetError::Poisoned { .. })),
        "{again:?}"
    );
    let staging = assets.stage(2, "next".into()).await;
    assert!(matches!(staging, Err(AssetError::Poisoned { .. })));

    std::fs::remove_file(&obstacle).unwrap();
    assert_eq!(assets.staged().await.unwrap(), ["round"]);
    publish(&assets, "tile/0/000").await;
    assets.settle(1).await.unwrap();
    assert!(assets.staged().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_round_costs_one_sync_and_a_settle_one_more() {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory, Durability::FileSystem);
    assets.staged().await.unwrap();
    let start = assets.stats().syncs();
    for size in 1..=10 {
        assets.stage(size, "round".into()).await.unwrap();
        publish(&assets, "tile/0/000").await;
        publish(&assets, "checkpoint").await;
    }
    assert_eq!(assets.stats().syncs() - start, 10);
    assets.settle(10).await.unwrap();
    assert_eq!(assets.stats().syncs() - start, 11);
    for _ in 0..5 {
        assets.settle(10).await.unwrap();
    }
    assert_eq!(assets.stats().syncs() - start, 11, "nothing to settle");
}

/// Blocks that a sync would have to allocate or convert may be zeros afterwards.
#[tokio::test]
async fn a_round_overwrites_blocks_that_are_there() {
    use std::os::unix::fs::MetadataExt;
    let directory = TempDir::new().unwrap();
    let assets = open(&directory, Durability::FileSystem);
    assets.staged().await.unwrap();
    let segment = directory.path().join(".lucarne/journal/0000000000000001");
    let size = || {
        let status = std::fs::metadata(&segment).unwrap();
        (status.len(), status.blocks())
    };
    let (before, syncs) = (size(), assets.stats().syncs());
    let record = bytes::Bytes::from(vec![7; 20_000]);
    for size in 1..=6 {
        assets.stage(size, record.clone()).await.unwrap();
    }
    assert_eq!(size(), before);
    assert_eq!(assets.stats().syncs() - syncs, 6);
    // One record that is longer than the room, and one after it.
    let long = bytes::Bytes::from(vec![9; 3_000_000]);
    assets.stage(7, long.clone()).await.unwrap();
    let grown = size();
    assets.stage(8, record.clone()).await.unwrap();
    assert_eq!(size(), grown);
    assert_eq!(assets.stats().syncs() - syncs, 9, "one to grow");
    let staged = assets.staged().await.unwrap();
    assert_eq!(staged.len(), 8);
    assert_eq!(
        (&staged[0], &staged[6], &staged[7]),
        (&record, &long, &record)
    );
}

#[tokio::test]
async fn segments_do_not_pile_up() {
    let directory = TempDir::new().unwrap();
    let journal = directory.path().join(".lucarne/journal");
    let segments = || std::fs::read_dir(&journal).unwrap().count();
    for _ in 0..10 {
        let assets = open(&directory, Durability::FileSystem);
        assets.staged().await.unwrap();
        assert_eq!(segments(), 1);
    }
    let assets = open(&directory, Durability::FileSystem);
    for size in 1..=50 {
        assets.stage(size, "round".into()).await.unwrap();
        assets.settle(size - 1).await.unwrap();
        assert!(segments() <= 3);
    }
    assets.settle(50).await.unwrap();
    assert_eq!(segments(), 1);
}

/// A round whose sync fails may be complete in the page cache and torn on the disk.
#[tokio::test]
async fn a_tear_stays_one_after_later_segments_are_settled() {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory, Durability::FileSystem);
    assets.stage(100, "staged in vain".into()).await.unwrap();
    assets.staged().await.unwrap();
    assets.stage(90, "round".into()).await.unwrap();
    assets.settle(90).await.unwrap();
    assets.stage(95, "another".into()).await.unwrap();
    drop(assets);
    let first = directory.path().join(".lucarne/journal/0000000000000001");
    let bytes = std::fs::read(&first).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    std::fs::write(&first, &bytes[..last]).unwrap();
    let assets = open(&directory, Durability::FileSystem);
    let staged = assets.staged().await.unwrap();
    assert_eq!(staged, ["round", "another"]);
}

/// Another process that publishes the log is noticed before the next round is committed.
#[tokio::test]
async fn a_checkpoint_of_another_process_stays_and_is_noticed() {
    let directory = TempDir::new().unwrap();
    let assets = open(&directory, Durability::FileSystem);
    let file = directory.path().join("checkpoint");
    let checkpoint = async |bytes: &'static str| {
        let asset = Asset::new("checkpoint", bytes, AssetKind::Checkpoint);
        assets.publish(vec![asset]).await
    };
    std::fs::write(&file, "left").unwrap();
    assets.staged().await.unwrap();
    assert_eq!(assets.get("checkpoint").await.unwrap().unwrap(), "left");
    checkpoint("first").await.unwrap();
    assets.confirm_published().await.unwrap();
    // Another process never removes the checkpoint.
    std::fs::remove_file(&file).unwrap();
    assets.confirm_published().await.unwrap();
    checkpoint("second").await.unwrap();

    std::fs::write(&file, "theirs").unwrap();
    let overtaken =
        |done: Result<(), AssetError>| matches!(done, Err(AssetError::Overtaken { .. }));
    assert!(overtaken(assets.confirm_published().await));
    assert!(overtaken(assets.stage(2, "round".into()).await));
    assert!(overtaken(checkpoint("third").await));
    // Reading the checkpoint changes nothing.
    assert_eq!(assets.get("checkpoint").await.unwrap().unwrap(), "theirs");
    assert!(overtaken(assets.confirm_published().await));
    assert_eq!(std::fs::read(&file).unwrap(), b"theirs");

    // A recovery accepts the checkpoint.
    assets.staged().await.unwrap();
    assert_eq!(assets.get("checkpoint").await.unwrap().unwrap(), "theirs");
    checkpoint("third").await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"third");
}
