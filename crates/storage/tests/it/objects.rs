//! Tests with buckets of real servers: the conformance tests, the differences between clouds, the
//! headers of a public bucket, and faults on the way to a store.

mod checkpoint;
mod clouds;
mod conformance;
mod faults;
mod headers;
mod rounds;

use lucarne_storage::conformance::s3_config;
use lucarne_storage::object::{Bucket, ObjectStoreConfig, S3};

/// Returns the configuration of a log at `prefix` in the bucket.
fn config(bucket: &lucarne_testkit::Bucket, prefix: &str) -> ObjectStoreConfig {
    let store = &bucket.store;
    s3_config(
        &store.endpoint,
        store.region,
        [store.access_key, store.secret_key],
        &bucket.name,
        prefix,
    )
}

/// Returns the S3 part of a configuration.
fn s3(config: &mut ObjectStoreConfig) -> &mut S3 {
    match &mut config.bucket {
        Bucket::S3(s3) => s3,
        other => panic!("not S3: {other:?}"),
    }
}
