//! Tests of behaviour that is specific to Google's and Microsoft's stores.

use lucarne_storage::object::Bucket;
use lucarne_storage::{
    Asset, AssetError, AssetKind, Assets, Encoding, LockError, ObjectAssets, ObjectLock,
    ObjectStoreConfig,
};
use lucarne_testkit::Client;

use super::conformance::{azure, gcs};

/// Renames the bucket or container.
fn rename(config: &mut ObjectStoreConfig, name: &str) {
    match &mut config.bucket {
        Bucket::Gcs(gcs) => gcs.bucket = name.into(),
        Bucket::Azure(azure) => azure.container = name.into(),
        Bucket::S3(s3) => s3.bucket = name.into(),
    }
}

#[tokio::test]
async fn a_missing_bucket_is_told() {
    let ((mut gcs, _gcs), (mut azure, _azure)) = (gcs("").await, azure("").await);
    for config in [&mut gcs, &mut azure] {
        rename(config, "no-such-bucket");
        let error = ObjectAssets::open(config).await.err().unwrap();
        assert!(matches!(error, AssetError::NoBucket { .. }), "{error:?}");
        assert!(error.to_string().contains("no-such-bucket"), "{error}");
        let error = ObjectLock::connect(config).await.err().unwrap();
        assert!(error.to_string().contains("no such bucket"), "{error}");
    }
}

/// A lock on S3 reports errors and never hangs. `faults.rs` has the tests for assets.
#[tokio::test]
async fn wrong_credentials_and_buckets_of_s3_are_named() {
    let bucket = lucarne_testkit::Bucket::minio().await.unwrap();
    let mut config = super::config(&bucket, "lock/");
    let keys = super::s3(&mut config).keys.as_mut().unwrap();
    let right = std::mem::replace(&mut keys.secret_key, "mistyped".into());
    let refused = ObjectLock::connect(&config).await.err().unwrap();
    let refused = refused.to_string();
    assert!(refused.contains("credentials"), "{refused}");
    assert!(!refused.contains("mistyped"), "{refused}");
    let s3 = super::s3(&mut config);
    s3.keys.as_mut().unwrap().secret_key = right;
    s3.bucket = "nowhere".into();
    let refused = ObjectLock::connect(&config).await.err().unwrap();
    let refused = refused.to_string();
    assert!(refused.contains("no such bucket"), "{refused}");
}

/// versitygw responds with 404, as for a missing object.
#[tokio::test]
async fn an_unknown_access_key_is_neither_an_outage_nor_an_empty_bucket() {
    let buckets = [
        lucarne_testkit::Bucket::versitygw().await,
        lucarne_testkit::Bucket::minio().await,
    ];
    for bucket in buckets {
        let bucket = bucket.unwrap();
        let mut config = super::config(&bucket, "a/");
        super::s3(&mut config).keys.as_mut().unwrap().access_key = "nobody".into();
        let error = ObjectAssets::open(&config).await.err().unwrap();
        assert!(matches!(error, AssetError::Refused { .. }), "{error:?}");
        let error = ObjectLock::connect(&config).await.err().unwrap();
        assert!(matches!(error, LockError::Unusable { .. }), "{error:?}");
        assert!(error.to_string().contains("credentials"), "{error}");
    }
}

/// This test needs the double, because fake-gcs-server accepts any credentials.
#[tokio::test]
async fn a_wrong_key_of_azure_is_named_and_not_shown() {
    let (mut config, _server) = azure("").await;
    let wrong = "d3Jvbmcga2V5IHRoYXQgaXMgbG9uZyBlbm91Z2g=";
    if let Bucket::Azure(azure) = &mut config.bucket {
        azure.key = Some(wrong.into());
    }
    let error = ObjectAssets::open(&config).await.err().unwrap();
    assert!(matches!(error, AssetError::Refused { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("Check the credentials"), "{message}");
    assert!(!message.contains(wrong), "{message}");
    let error = ObjectLock::connect(&config).await.err().unwrap();
    assert!(error.to_string().contains("credentials"), "{error}");
}

/// fake-gcs-server does not support uploads of the XML API, and therefore no conditional uploads.
/// Without the testkit's double it cannot hold a lock, and is refused. If this test fails one day,
/// the double can be removed.
#[tokio::test]
async fn the_emulator_of_google_alone_is_refused() {
    let (mut config, server) = gcs("").await;
    if let Bucket::Gcs(gcs) = &mut config.bucket {
        gcs.endpoint = Some(server.bare_endpoint.clone());
    }
    let refused = ObjectLock::connect(&config).await.err().unwrap();
    let refused = refused.to_string();
    assert!(refused.contains("400 Bad Request"), "{refused}");
    let assets = ObjectAssets::open(&config).await.unwrap();
    let error = assets.stage(1, "round".into()).await.unwrap_err();
    assert!(error.to_string().contains("400 Bad Request"), "{error}");
}

/// Objects are served to browsers like by Google's servers and caches.
#[tokio::test]
async fn google_keeps_headers_and_compressed_bytes() {
    let (config, server) = gcs("2026h1/").await;
    let assets = ObjectAssets::open(&config).await.unwrap();
    let kind = AssetKind::DataTile {
        encoding: Encoding::Gzip,
    };
    let tile = Asset::new("tile/data/000", gzip(), kind);
    assets.publish(vec![tile]).await.unwrap();
    let Bucket::Gcs(bucket) = &config.bucket else {
        panic!("not GCS")
    };
    let client = Client::new(server.endpoint.clone());
    let url = format!("{}/2026h1%2Ftile%2Fdata%2F000", bucket.bucket);
    let gzipped = [("accept-encoding", "gzip")];
    let answer = client.get_with(&url, &gzipped).await.unwrap();
    assert_eq!(answer.header("content-encoding"), "gzip");
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    let forever = "public, max-age=31536000, immutable";
    assert_eq!(answer.header("cache-control"), forever);
    assert_eq!(answer.ok().unwrap(), gzip());
    // A client that does not accept gzip gets decompressed bytes. Our client must not.
    let plain = client.get(&url).await.unwrap();
    assert_eq!(plain.ok().unwrap(), "lucarne\n");
    let stored = assets.get("tile/data/000").await.unwrap().unwrap();
    assert_eq!(stored, gzip());
}

/// Returns `lucarne\n`, compressed by gzip.
fn gzip() -> &'static [u8] {
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xcb)MN,\xcaK\xe5\x02\x00\xd9N$\x0d\x08\x00\x00\x00"
}
