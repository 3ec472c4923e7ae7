//! Buckets of real servers: what every back end must do, what each cloud does in
//! its own way, the headers that a public bucket serves, and what goes wrong on
//! the way to a store.
#![allow(clippy::unwrap_used)]

mod checkpoint;
mod clouds;
mod conformance;
mod faults;
mod headers;
mod rounds;

use lucarne_storage::object::{Bucket, ObjectStoreConfig, S3, S3Keys};

/// A log at `prefix` in the bucket, as its own server would configure it.
fn config(bucket: &lucarne_testkit::Bucket, prefix: &str) -> ObjectStoreConfig {
    let store = &bucket.store;
    let s3 = S3 {
        region: Some(store.region.into()),
        bucket: bucket.name.clone(),
        endpoint: Some(store.endpoint.clone()),
        allow_http: true,
        keys: Some(S3Keys {
            access_key: store.access_key.into(),
            secret_key: store.secret_key.into(),
        }),
        ..S3::default()
    };
    ObjectStoreConfig::new(Bucket::S3(s3), prefix)
}

/// The S3 part of a configuration.
fn s3(config: &mut ObjectStoreConfig) -> &mut S3 {
    match &mut config.bucket {
        Bucket::S3(s3) => s3,
        other => panic!("not S3: {other:?}"),
    }
}
