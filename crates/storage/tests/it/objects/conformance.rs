//! The conformance tests for assets and locks in object stores.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lucarne_storage::conformance::{AssetsBackend, LockBackend};
use lucarne_storage::object::{self, Azure, Gcs};
use lucarne_storage::{Assets, Lock, ObjectAssets, ObjectLock, ObjectStoreConfig};
use lucarne_testkit::{AzureServer, Bucket, GcsServer};
use tokio::sync::{Semaphore, SemaphorePermit};

/// A prefix of a bucket, and its server, which stops when this value is dropped.
struct Objects<S> {
    config: ObjectStoreConfig,
    _server: S,
}

#[async_trait]
impl<S: Send + Sync> AssetsBackend for Objects<S> {
    async fn open(&self) -> Box<dyn Assets> {
        Box::new(ObjectAssets::open(&self.config).await.unwrap())
    }
}

#[async_trait]
impl<S: Send + Sync> LockBackend for Objects<S> {
    async fn open(&self) -> Box<dyn Lock> {
        // A lock waits at most four seconds. A store that is busy with other tests may need longer
        // at first.
        for _ in 0..20 {
            if let Ok(lock) = ObjectLock::connect(&self.config).await {
                return Box::new(lock);
            }
        }
        Box::new(ObjectLock::connect(&self.config).await.unwrap())
    }
}

fn s3(bucket: Bucket, prefix: &str) -> Objects<Bucket> {
    Objects {
        config: unhurried(super::config(&bucket, prefix)),
        _server: bucket,
    }
}

/// Raises the timeouts, because these tests check results and not speed. On a busy machine a
/// response may be slow, and an abandoned request may be executed later.
fn unhurried(mut config: ObjectStoreConfig) -> ObjectStoreConfig {
    config.policy.request = Duration::from_secs(120);
    config.policy.lock_call = Duration::from_secs(300);
    config.policy.hedge = None;
    config
}

/// Returns a separate bucket on a server that supports uploads. [`GcsServer`] describes which
/// requests fake-gcs-server handles and which its double.
pub(super) async fn gcs(prefix: &str) -> (ObjectStoreConfig, Arc<GcsServer>) {
    let server = GcsServer::shared().unwrap();
    let gcs = Gcs {
        bucket: server.new_bucket().await.unwrap(),
        endpoint: Some(server.endpoint.clone()),
        allow_http: true,
        anonymous: true,
        credentials: None,
    };
    let config = ObjectStoreConfig::new(object::Bucket::Gcs(gcs), prefix);
    (unhurried(config), server)
}

/// Azurite, reserved for one test at a time: it has one thread, so concurrent tests would slow each
/// other down.
pub(super) struct Azurite {
    _server: Arc<AzureServer>,
    _turn: SemaphorePermit<'static>,
}

pub(super) async fn azure(prefix: &str) -> (ObjectStoreConfig, Azurite) {
    static TURNS: Semaphore = Semaphore::const_new(3);
    let turn = TURNS.acquire().await.unwrap();
    let server = AzureServer::shared().unwrap();
    let azure = Azure {
        account: Some(server.account.into()),
        container: server.new_container().await.unwrap(),
        endpoint: Some(server.endpoint.clone()),
        allow_http: true,
        key: Some(server.key.into()),
    };
    let config = ObjectStoreConfig::new(object::Bucket::Azure(azure), prefix);
    let azurite = Azurite {
        _server: server,
        _turn: turn,
    };
    (unhurried(config), azurite)
}

fn objects<S>((config, server): (ObjectStoreConfig, S)) -> Objects<S> {
    Objects {
        config,
        _server: server,
    }
}

mod versitygw {
    use super::*;

    lucarne_storage::assets_conformance!(s3(Bucket::versitygw().await.unwrap(), ""));

    mod below_a_prefix {
        use super::*;

        lucarne_storage::assets_conformance!(s3(
            Bucket::versitygw().await.unwrap(),
            "logs/2026h1/"
        ));
    }

    mod as_a_lock {
        use super::*;

        lucarne_storage::lock_conformance!(s3(Bucket::versitygw().await.unwrap(), "lock/"));
    }
}

mod minio {
    use super::*;

    lucarne_storage::assets_conformance!(s3(Bucket::minio().await.unwrap(), "2026h1-"));

    mod as_a_lock {
        use super::*;

        lucarne_storage::lock_conformance!(s3(Bucket::minio().await.unwrap(), "lock/"));
    }
}

mod fake_gcs_server {
    use super::*;

    lucarne_storage::assets_conformance!(objects(gcs("2026h1/").await));

    mod as_a_lock {
        use super::*;

        lucarne_storage::lock_conformance!(objects(gcs("lock/").await));
    }
}

mod azurite {
    use super::*;

    lucarne_storage::assets_conformance!(objects(azure("2026h1/").await));

    mod as_a_lock {
        use super::*;

        lucarne_storage::lock_conformance!(objects(azure("lock/").await));
    }
}
