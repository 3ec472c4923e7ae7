//! Faults between a log and its store: each is reported clearly, and no acknowledged data is lost.

use std::time::{Duration, Instant};

use lucarne_storage::object::RequestPolicy;
use lucarne_storage::{Asset, AssetError, AssetKind, Assets, ObjectAssets, ObjectStoreConfig};
use lucarne_testkit::{Bucket, Fate, StoreProxy};

/// A bucket of versitygw behind a proxy.
struct Way {
    bucket: Bucket,
    proxy: StoreProxy,
}

impl Way {
    async fn new() -> Self {
        let bucket = Bucket::versitygw().await.unwrap();
        let proxy = StoreProxy::start(bucket.store.address).unwrap();
        Self { bucket, proxy }
    }

    /// Returns a configuration with shorter timeouts than usual, to save time. `hedge`: see
    /// [`RequestPolicy`].
    fn config(&self, hedge: Option<Duration>) -> ObjectStoreConfig {
        let mut config = super::config(&self.bucket, "");
        super::s3(&mut config).endpoint = Some(self.proxy.endpoint.clone());
        config.policy = RequestPolicy {
            request: Duration::from_secs(2),
            hedge,
            retries: 3,
            retrying: Duration::from_secs(4),
            ..RequestPolicy::default()
        };
        config
    }

    async fn open(&self) -> ObjectAssets {
        ObjectAssets::open(&self.config(None)).await.unwrap()
    }
}

fn tile(path: &str) -> Vec<Asset> {
    vec![Asset::new(path, "x", AssetKind::HashTile)]
}

async fn staged(assets: &ObjectAssets) -> Vec<String> {
    let records = assets.staged().await.unwrap().into_iter();
    let text = |record: bytes::Bytes| String::from_utf8(record.to_vec()).unwrap();
    records.map(text).collect()
}

#[tokio::test]
async fn a_short_outage_is_waited_out() {
    let way = Way::new().await;
    let assets = way.open().await;
    for fate in [503, 429, 409, 403, 404]
        .map(Fate::Status)
        .into_iter()
        .chain([Fate::LoseAnswer])
    {
        let before = way.proxy.struck();
        way.proxy.strike("PUT", 2, fate);
        assets.stage(1, format!("{fate:?}").into()).await.unwrap();
        assert_eq!(way.proxy.struck() - before, 2);
        way.proxy.strike("PUT", 2, fate);
        assets.publish(tile("tile/0/000")).await.unwrap();
        // These responses are temporary for a put, but final for a read.
        if !matches!(fate, Fate::Status(403 | 404 | 409)) {
            way.proxy.strike("GET", 2, fate);
        }
        assert_eq!(assets.get("tile/0/000").await.unwrap().unwrap(), "x");
    }
    // A lost response did not stage its round twice.
    let rounds = [503, 429, 409, 403, 404].map(|status| format!("Status({status})"));
    let rounds = [&rounds[..], &["LoseAnswer".to_owned()]].concat();
    assert_eq!(staged(&assets).await, rounds);
    way.proxy.strike("POST", 1, Fate::LoseAnswer);
    assets.settle(1).await.unwrap();
    assert!(staged(&assets).await.is_empty());
}

#[tokio::test]
async fn a_long_outage_is_told_and_nothing_acknowledged_is_lost() {
    let way = Way::new().await;
    let assets = way.open().await;
    assets.stage(1, "first".into()).await.unwrap();
    way.proxy.judge(|_| Fate::Status(503));
    let error = assets.stage(2, "second".into()).await.unwrap_err();
    assert!(matches!(error, AssetError::Unavailable { .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains("SlowDown") && message.contains(&way.bucket.name),
        "{message}"
    );
    let next = assets.stage(3, "third".into()).await;
    assert!(matches!(next, Err(AssetError::Poisoned { .. })), "{next:?}");
    let publish = assets.publish(tile("tile/0/000")).await;
    assert!(matches!(publish, Err(AssetError::Unavailable { .. })));
    // A file only counts as absent if the store states so.
    let get = assets.get("checkpoint").await;
    assert!(
        matches!(get, Err(AssetError::Unavailable { .. })),
        "{get:?}"
    );
    assert!(assets.staged().await.is_err());
    let still = assets.stage(3, "third".into()).await;
    assert!(
        matches!(still, Err(AssetError::Poisoned { .. })),
        "{still:?}"
    );

    way.proxy.judge(|_| Fate::Pass);
    assert_eq!(staged(&assets).await, ["first"]);
    assets.stage(2, "second".into()).await.unwrap();
    assert_eq!(staged(&assets).await, ["first", "second"]);
}

/// Failures of cleanup are reported, and the cleanup can be retried.
#[tokio::test]
async fn tidying_up_waits_for_the_store() {
    let way = Way::new().await;
    let assets = way.open().await;
    assets.stage(1, "round".into()).await.unwrap();
    assets.publish(tile("tile/0/000.p/7")).await.unwrap();
    way.proxy.judge(|request| match request.method().as_str() {
        "POST" | "DELETE" => Fate::Status(503),
        _ => Fate::Pass,
    });
    assert!(assets.publishes_durably());
    assert!(assets.settle(1).await.is_err());
    let full = ["tile/0/000".to_owned()];
    assert!(assets.remove_partials(&full).await.is_err());
    assert_eq!(assets.partials("tile/0/000").await.unwrap(), [7]);

    way.proxy.judge(|_| Fate::Pass);
    assets.settle(1).await.unwrap();
    assets.remove_partials(&full).await.unwrap();
    assert!(assets.partials("tile/0/000").await.unwrap().is_empty());
    assert!(staged(&assets).await.is_empty());
}

#[tokio::test]
async fn a_request_that_hangs_is_given_up_and_repeated() {
    let way = Way::new().await;
    let assets = way.open().await;
    let start = Instant::now();
    way.proxy.strike("PUT", 1, Fate::Hang);
    assets.stage(1, "round".into()).await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(2));
    assert_eq!(staged(&assets).await, ["round"]);

    way.proxy.judge(|_| Fate::Hang);
    let error = assets.stage(2, "next".into()).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("no response in time"), "{message}");
}

#[tokio::test]
async fn a_slow_answer_is_overtaken() {
    let way = Way::new().await;
    let mut config = way.config(Some(Duration::from_millis(100)));
    config.policy.request = Duration::from_secs(60);
    let assets = ObjectAssets::open(&config).await.unwrap();
    for fate in [Fate::Hang, Fate::HoldAnswer] {
        way.proxy.strike("PUT", 1, fate);
        assets.stage(1, "round".into()).await.unwrap();
        way.proxy.strike("PUT", 1, fate);
        assets.publish(tile("tile/0/000")).await.unwrap();
        way.proxy.strike("GET", 1, fate);
        assert_eq!(assets.get("tile/0/000").await.unwrap().unwrap(), "x");
    }
    assert!(assets.stats().hedges() >= 6);
    assert_eq!(staged(&assets).await, ["round"; 2]);
}

/// Requests that change data are never sent twice concurrently: the older could arrive last.
#[tokio::test]
async fn a_checkpoint_is_not_sent_twice_at_once() {
    let way = Way::new().await;
    let config = way.config(Some(Duration::from_millis(100)));
    let assets = ObjectAssets::open(&config).await.unwrap();
    let hedges = assets.stats().hedges();
    way.proxy.strike("PUT", 1, Fate::Hang);
    let checkpoint = Asset::new("checkpoint", "signed", AssetKind::Checkpoint);
    assets.publish(vec![checkpoint]).await.unwrap();
    assert_eq!(assets.stats().hedges(), hedges);
    assert_eq!(way.proxy.struck(), 1);
}

/// An abandoned put takes effect after the log was reopened and has staged another round of that
/// size.
#[tokio::test]
async fn a_round_that_arrives_late_comes_before_those_staged_since() {
    let way = Way::new().await;
    let assets = way.open().await;
    assets.stage(10, "first".into()).await.unwrap();
    way.proxy.judge(|_| Fate::HoldAnswer);
    assert!(assets.stage(20, "given up".into()).await.is_err());
    way.proxy.judge(|_| Fate::Pass);
    // The record exists although its put failed: the contract allows this.
    assert_eq!(staged(&assets).await, ["first", "given up"]);
    assets.stage(20, "second".into()).await.unwrap();
    let next = way.open().await;
    assert_eq!(staged(&next).await, ["first", "given up", "second"]);
    next.settle(20).await.unwrap();
    assert!(staged(&next).await.is_empty());
}

#[tokio::test]
async fn wrong_credentials_are_told() {
    let bucket = Bucket::versitygw().await.unwrap();
    let mut config = super::config(&bucket, "");
    let keys = super::s3(&mut config).keys.as_mut().unwrap();
    keys.secret_key = "not the secret".into();
    let error = ObjectAssets::open(&config).await.err().unwrap();
    assert!(matches!(error, AssetError::Refused { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("Check the credentials"), "{message}");
    assert!(!message.contains("not the secret"), "{message}");
}

#[tokio::test]
async fn a_missing_bucket_is_told_from_an_empty_one() {
    for bucket in [Bucket::versitygw().await, Bucket::minio().await] {
        let bucket = bucket.unwrap();
        let mut config = super::config(&bucket, "");
        ObjectAssets::open(&config).await.unwrap();
        super::s3(&mut config).bucket = "no-such-bucket".into();
        let error = ObjectAssets::open(&config).await.err().unwrap();
        assert!(matches!(error, AssetError::NoBucket { .. }), "{error:?}");
        assert!(error.to_string().contains("no-such-bucket"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told() {
    let bucket = Bucket::versitygw().await.unwrap();
    let mut config = super::config(&bucket, "");
    let nowhere = format!("http://127.0.0.1:{}", lucarne_testkit::free_port());
    super::s3(&mut config).endpoint = Some(nowhere.clone());
    config.policy.retries = 1;
    let error = ObjectAssets::open(&config).await.err().unwrap();
    assert!(matches!(error, AssetError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains(&nowhere), "{error}");
}

/// Bits also flip in object stores. The error names the key of the damaged object.
#[tokio::test]
async fn a_damaged_round_is_told_with_its_key() {
    let way = Way::new().await;
    let assets = way.open().await;
    assets.stage(1, "a round".into()).await.unwrap();
    let bucket = way.bucket.store.directory.path().join("data");
    let journal = bucket.join(&way.bucket.name).join(".lucarne/journal");
    let object = std::fs::read_dir(journal).unwrap().next().unwrap().unwrap();
    let mut bytes = std::fs::read(object.path()).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(object.path(), bytes).unwrap();
    let error = assets.staged().await.unwrap_err();
    assert!(matches!(error, AssetError::Damaged { .. }), "{error:?}");
    let name = object.file_name().into_string().unwrap();
    assert!(error.to_string().contains(&name), "{error}");
}
