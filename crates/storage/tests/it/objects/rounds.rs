//! The number of requests of a round, for which clouds charge.

use bytes::Bytes;
use lucarne_storage::{Asset, AssetKind, Assets, ObjectAssets};
use lucarne_testkit::Bucket;

async fn publish(assets: &ObjectAssets, paths: impl IntoIterator<Item = String>) {
    let asset = |path| Asset::new(path, "x", AssetKind::HashTile);
    let batch = paths.into_iter().map(asset).collect();
    assets.publish(batch).await.unwrap();
}

async fn open(bucket: &Bucket) -> ObjectAssets {
    let mut config = super::config(bucket, "2026h1/");
    // The test counts requests, so no request may be repeated, even on a slow machine.
    config.policy.hedge = None;
    config.policy.request = std::time::Duration::from_secs(120);
    ObjectAssets::open(&config).await.unwrap()
}

#[tokio::test]
async fn a_round_costs_a_request_for_each_object() {
    let bucket = Bucket::versitygw().await.unwrap();
    let assets = open(&bucket).await;
    assert_eq!(assets.stats().requests(), 1, "to open");
    assets.staged().await.unwrap();
    assert_eq!(assets.stats().requests(), 2, "an empty journal");
    for round in 1..=20 {
        let before = assets.stats().requests();
        assets.stage(round, "round".into()).await.unwrap();
        let tiles = ["0", "data"].map(|level| format!("tile/{level}/000.p/{round}"));
        publish(&assets, tiles).await;
        publish(&assets, ["checkpoint".into()]).await;
        assert_eq!(assets.stats().requests() - before, 4);
    }
    let before = assets.stats().requests();
    assets.settle(20).await.unwrap();
    assert_eq!(assets.stats().requests() - before, 1, "one batch");
    assets.settle(20).await.unwrap();
    assert_eq!(assets.stats().requests() - before, 1, "nothing to do");
}

/// A thousand tiles have been filled since partial tiles were last removed.
#[tokio::test]
async fn superseded_partials_cost_few_requests() {
    let bucket = Bucket::versitygw().await.unwrap();
    let assets = open(&bucket).await;
    let tiles = |level| (0..600).map(move |i| format!("tile/{level}/x001/{i:03}"));
    for level in ["0", "data"] {
        publish(&assets, tiles(level)).await;
        publish(&assets, tiles(level).map(|tile| format!("{tile}.p/9"))).await;
    }
    publish(&assets, ["tile/0/x001/600.p/1".into()]).await;
    let before = assets.stats().requests();
    let full: Vec<String> = ["0", "data"].into_iter().flat_map(tiles).collect();
    assets.remove_partials(&full).await.unwrap();
    let requests = assets.stats().requests() - before;
    assert_eq!(assets.stats().removed_files(), 1200);
    // Each directory needs two pages and one batch.
    assert!(requests <= 6, "{requests} requests");
    assert_eq!(assets.partials("tile/0/x001/600").await.unwrap(), [1]);
    assert!(assets.get("tile/data/x001/599").await.unwrap().is_some());
}

/// The journal has more rounds than fit into one page of a listing or one batch of deletions.
#[tokio::test]
async fn a_long_journal_reads_back_whole_and_in_order() {
    let bucket = Bucket::versitygw().await.unwrap();
    let assets = open(&bucket).await;
    let rounds: Vec<Bytes> = (1..=1050).map(|i| format!("round {i}").into()).collect();
    for (size, round) in (1..).zip(&rounds) {
        assets.stage(size, round.clone()).await.unwrap();
    }
    let assets = open(&bucket).await;
    assert_eq!(assets.staged().await.unwrap(), rounds);
    assets.settle(1049).await.unwrap();
    assert_eq!(assets.staged().await.unwrap(), rounds[1049..]);
}
