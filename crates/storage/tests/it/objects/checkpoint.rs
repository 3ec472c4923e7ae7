//! The checkpoint is only replaced by a process that knows its current version.

use lucarne_storage::object::{self, Bucket as Place, RequestPolicy};
use lucarne_storage::{Asset, AssetError, AssetKind, Assets, ObjectAssets, ObjectStoreConfig};
use lucarne_testkit::{Bucket, Fate, StoreProxy, eventually};

use super::conformance::{azure, gcs};

async fn publish(assets: &ObjectAssets, text: &'static str) -> Result<(), String> {
    let checkpoint = Asset::new("checkpoint", text, AssetKind::Checkpoint);
    let published = assets.publish(vec![checkpoint]).await;
    published.map_err(|error| error.to_string())
}

async fn published(assets: &ObjectAssets) -> String {
    let found = assets.get("checkpoint").await.unwrap().unwrap();
    String::from_utf8(found.to_vec()).unwrap()
}

/// Starts a recovery, as a log does when it is opened.
async fn recover(assets: &ObjectAssets) {
    assets.staged().await.unwrap();
    assets.get("checkpoint").await.unwrap();
}

fn is_checkpoint(request: &http::Request<bytes::Bytes>) -> bool {
    request.method() == "PUT" && request.uri().path().ends_with("/checkpoint")
}

/// Runs two processes with two locks.
async fn of_two_one_goes_on(config: &ObjectStoreConfig) {
    let first = ObjectAssets::open(config).await.unwrap();
    let second = ObjectAssets::open(config).await.unwrap();
    recover(&first).await;
    publish(&first, "1").await.unwrap();
    recover(&second).await;
    publish(&first, "2 of the first").await.unwrap();
    let refused = publish(&second, "2 of the second").await.unwrap_err();
    assert!(refused.contains("another process publishes"), "{refused}");
    assert_eq!(published(&first).await, "2 of the first");
    publish(&first, "3").await.unwrap();
    // The second process reads the checkpoint and may decide what to do.
    recover(&second).await;
    publish(&second, "4").await.unwrap();
    assert!(publish(&first, "5").await.is_err());
    assert_eq!(published(&second).await, "4");
}

#[tokio::test]
async fn of_two_who_publish_one_goes_on() {
    let buckets = [Bucket::versitygw().await, Bucket::minio().await];
    for bucket in buckets {
        let bucket = bucket.unwrap();
        of_two_one_goes_on(&super::config(&bucket, "2026h1/")).await;
    }
    let (config, _server) = gcs("2026h1/").await;
    of_two_one_goes_on(&config).await;
    let (config, _server) = azure("2026h1/").await;
    of_two_one_goes_on(&config).await;
}

/// The bucket is emptied while the log is open. The error does not blame another process.
#[tokio::test]
async fn a_checkpoint_that_was_deleted_is_missing() {
    for store in [Bucket::versitygw().await, Bucket::minio().await] {
        let bucket = store.unwrap();
        let config = super::config(&bucket, "");
        let assets = ObjectAssets::open(&config).await.unwrap();
        recover(&assets).await;
        publish(&assets, "1").await.unwrap();
        bucket.delete("checkpoint").await.unwrap();
        let refused = publish(&assets, "2").await.unwrap_err();
        let words = "the published checkpoint is missing from s3://";
        assert!(refused.starts_with(words), "{refused}");
        assert!(refused.contains("emptied or rolled back"), "{refused}");
        // A recovery may publish the checkpoint again.
        recover(&assets).await;
        publish(&assets, "2").await.unwrap();
        assert_eq!(published(&assets).await, "2");
    }
}

/// Reading the checkpoint does not change which checkpoint the log replaces next.
#[tokio::test]
async fn what_is_read_meanwhile_is_not_taken_for_ours() {
    let bucket = Bucket::versitygw().await.unwrap();
    let config = super::config(&bucket, "");
    let [first, second] = [(); 2].map(|()| ObjectAssets::open(&config));
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    recover(&first).await;
    recover(&second).await;
    publish(&first, "1").await.unwrap();
    assert_eq!(published(&second).await, "1");
    assert!(publish(&second, "2").await.is_err());
}

/// Returns a bucket behind a proxy, with short timeouts.
fn behind(proxy: &StoreProxy, bucket: &Bucket) -> ObjectStoreConfig {
    let mut config = super::config(bucket, "");
    super::s3(&mut config).endpoint = Some(proxy.endpoint.clone());
    config.policy = RequestPolicy {
        request: std::time::Duration::from_secs(2),
        hedge: None,
        retries: 3,
        retrying: std::time::Duration::from_secs(4),
        ..RequestPolicy::default()
    };
    config
}

/// A put times out, the log is reopened, and only then does the put arrive.
#[tokio::test]
async fn a_put_that_arrives_late_does_not_turn_the_checkpoint_back() {
    let bucket = Bucket::versitygw().await.unwrap();
    let proxy = StoreProxy::start(bucket.store.address).unwrap();
    let assets = ObjectAssets::open(&behind(&proxy, &bucket)).await.unwrap();
    recover(&assets).await;
    publish(&assets, "1").await.unwrap();
    proxy.judge(|request| {
        if is_checkpoint(request) {
            Fate::Withhold
        } else {
            Fate::Pass
        }
    });
    publish(&assets, "2").await.unwrap_err();
    proxy.judge(|_| Fate::Pass);
    recover(&assets).await;
    publish(&assets, "3").await.unwrap();
    assert!(proxy.release().await > 0);
    assert_eq!(published(&assets).await, "3");
    publish(&assets, "4").await.unwrap();
}

/// The retry of a put fails because of the condition that the put itself changed.
#[tokio::test]
async fn a_put_whose_answer_is_lost_has_succeeded() {
    for store in [Bucket::versitygw().await, Bucket::minio().await] {
        let bucket = store.unwrap();
        let proxy = StoreProxy::start(bucket.store.address).unwrap();
        let assets = ObjectAssets::open(&behind(&proxy, &bucket)).await.unwrap();
        recover(&assets).await;
        for (fate, text) in [
            (Fate::Pass, "1"),
            (Fate::LoseAnswer, "2"),
            (Fate::HoldAnswer, "3"),
            (Fate::Status(503), "4"),
            (Fate::Status(409), "5"),
            (Fate::LoseAnswer, "6"),
        ] {
            proxy.strike("PUT", 1, fate);
            publish(&assets, text).await.unwrap();
            assert_eq!(published(&assets).await, text, "{fate:?}");
        }
    }
}

/// A round publishes the next checkpoint while the store has not responded to an amendment: the
/// round does not wait, whether the amendment arrives before, later or never.
#[tokio::test]
async fn an_amendment_in_flight_does_not_delay_the_next_checkpoint() {
    let bucket = Bucket::versitygw().await.unwrap();
    let proxy = StoreProxy::start(bucket.store.address).unwrap();
    let assets = ObjectAssets::open(&behind(&proxy, &bucket)).await.unwrap();
    recover(&assets).await;
    for fate in [Fate::Hang, Fate::Withhold, Fate::HoldAnswer] {
        publish(&assets, "1").await.unwrap();
        let arrived = std::sync::Arc::new(tokio::sync::Notify::new());
        let noted = arrived.clone();
        proxy.judge(move |request| {
            if is_checkpoint(request) {
                noted.notify_one();
                fate
            } else {
                Fate::Pass
            }
        });
        let amended = async {
            let old = bytes::Bytes::from_static(b"1");
            assets.amend_checkpoint(&old, "1 signed".into()).await
        };
        let sent = async {
            arrived.notified().await;
            if fate == Fate::HoldAnswer {
                let other = ObjectAssets::open(&super::config(&bucket, ""))
                    .await
                    .unwrap();
                eventually("the amendment is stored", async || {
                    published(&other).await == "1 signed"
                })
                .await;
            }
        };
        tokio::select! {
            amended = amended => panic!("{amended:?}"),
            () = sent => {}
        }
        proxy.judge(|_| Fate::Pass);
        publish(&assets, "2").await.unwrap();
        if fate == Fate::Withhold {
            assert!(proxy.release().await > 0);
        }
        assert_eq!(published(&assets).await, "2", "{fate:?}");
    }
}

/// On a store that ignores conditions, puts of other processes are detected by reading.
#[tokio::test]
async fn without_conditions_the_checkpoint_is_read_first() {
    let (mut config, server) = gcs("2026h1/").await;
    let address = server.endpoint.trim_start_matches("http://");
    let proxy = StoreProxy::start(address.parse().unwrap()).unwrap();
    proxy.judge(|_| Fate::Unconditional("x-goog-if-generation-match"));
    let Place::Gcs(gcs) = &mut config.bucket else {
        unreachable!();
    };
    gcs.endpoint = Some(proxy.endpoint.clone());
    let [first, second] = [(); 2].map(|()| ObjectAssets::open(&config));
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    recover(&first).await;
    publish(&first, "1").await.unwrap();
    publish(&first, "2").await.unwrap();
    recover(&second).await;
    publish(&first, "3").await.unwrap();
    let refused = publish(&second, "4").await.unwrap_err();
    assert!(refused.contains("another process publishes"), "{refused}");
    assert_eq!(published(&first).await, "3");
    publish(&first, "5").await.unwrap();
    // The probe was deleted.
    assert!(first.get(".lucarne/conditions").await.is_err());
}

/// Returns whether the request has a condition on the version of an object.
fn is_update(request: &http::Request<bytes::Bytes>) -> bool {
    request.headers().contains_key(http::header::IF_MATCH)
}

/// Some stores compare the e-tag without its quotes, so that no condition is ever right.
#[tokio::test]
async fn a_store_that_refuses_right_conditions_is_used_without_conditions() {
    let bucket = Bucket::minio().await.unwrap();
    let proxy = StoreProxy::start(bucket.store.address).unwrap();
    proxy.judge(|request| {
        if is_update(request) {
            Fate::Status(412)
        } else {
            Fate::Pass
        }
    });
    let config = behind(&proxy, &bucket);
    assert!(!object::has_conditions(&config).await.unwrap());
    let assets = ObjectAssets::open(&config).await.unwrap();
    recover(&assets).await;
    for text in ["1", "2"] {
        publish(&assets, text).await.unwrap();
        assert_eq!(published(&assets).await, text);
    }
}

/// The bucket still has the checkpoint that the put replaces: no other process publishes there.
#[tokio::test]
async fn a_refused_put_of_the_present_version_is_repeated_and_then_named() {
    let bucket = Bucket::minio().await.unwrap();
    let proxy = StoreProxy::start(bucket.store.address).unwrap();
    let assets = ObjectAssets::open(&behind(&proxy, &bucket)).await.unwrap();
    recover(&assets).await;
    // The creation of the first checkpoint, and its replacement.
    for (status, text) in [(409, "1"), (412, "2")] {
        let left = std::sync::atomic::AtomicU64::new(1);
        proxy.judge(move |request| {
            let mine = request.method() == "PUT" && is_checkpoint(request);
            if mine && left.swap(0, std::sync::atomic::Ordering::SeqCst) > 0 {
                Fate::Status(status)
            } else {
                Fate::Pass
            }
        });
        publish(&assets, text).await.unwrap();
        assert_eq!(published(&assets).await, text);
    }
    proxy.judge(|request| {
        if is_update(request) {
            Fate::Status(412)
        } else {
            Fate::Pass
        }
    });
    let refused = publish(&assets, "3").await.unwrap_err();
    assert!(refused.contains("unsuitable"), "{refused}");
    assert!(!refused.contains("another process"), "{refused}");
}

/// Waiting does not help.
#[tokio::test]
async fn a_store_that_lacks_a_feature_is_unsuitable() {
    let bucket = Bucket::minio().await.unwrap();
    let proxy = StoreProxy::start(bucket.store.address).unwrap();
    for fate in [Fate::Status(501), Fate::WithoutHeader("etag")] {
        let assets = ObjectAssets::open(&behind(&proxy, &bucket)).await.unwrap();
        // The client repeats requests after an error of the server.
        proxy.strike("PUT", 100, fate);
        let issuer = Asset::new("issuer/00", "x", AssetKind::Issuer);
        let failed = assets.publish(vec![issuer]).await.err();
        let unsuitable = matches!(failed, Some(AssetError::Unsuitable { .. }));
        assert!(unsuitable, "{fate:?}: {failed:?}");
    }
}
