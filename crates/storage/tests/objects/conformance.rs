//! The cases that every back end must pass.

use async_trait::async_trait;
use lucarne_storage::conformance::AssetsBackend;
use lucarne_storage::{Assets, ObjectAssets, ObjectStoreConfig};
use lucarne_testkit::Bucket;

/// A prefix of a bucket, which lives as long as this.
struct Objects {
    config: ObjectStoreConfig,
    _bucket: Bucket,
}

impl Objects {
    fn new(bucket: Bucket, prefix: &str) -> Self {
        Self {
            config: super::config(&bucket, prefix),
            _bucket: bucket,
        }
    }
}

#[async_trait]
impl AssetsBackend for Objects {
    async fn open(&self) -> Box<dyn Assets> {
        Box::new(ObjectAssets::open(&self.config).await.unwrap())
    }
}

mod versitygw {
    use super::*;

    lucarne_storage::assets_conformance!(Objects::new(Bucket::versitygw().await.unwrap(), ""));

    mod below_a_prefix {
        use super::*;

        lucarne_storage::assets_conformance!(Objects::new(
            Bucket::versitygw().await.unwrap(),
            "logs/2026h1/"
        ));
    }
}

mod minio {
    use super::*;

    lucarne_storage::assets_conformance!(Objects::new(Bucket::minio().await.unwrap(), "2026h1-"));
}
