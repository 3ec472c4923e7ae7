//! A bucket on a real server.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Tcp;
use hyper_util::rt::TokioExecutor;
use lucarne_storage::conformance::LockBackend;
use lucarne_storage::{Lock, ObjectLock};
use lucarne_testkit as testkit;
use object_store::ClientOptions;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};

/// A prefix of its own in the one bucket of a server that tests share.
pub(super) struct Bucket {
    pub(super) server: Arc<testkit::ObjectStore>,
    prefix: String,
}

pub(super) const BUCKET: &str = "locks";

impl Bucket {
    pub(super) fn minio() -> Self {
        static SHARED: Mutex<Weak<testkit::ObjectStore>> = Mutex::new(Weak::new());
        Self::on(&SHARED, || testkit::ObjectStore::minio().unwrap())
    }

    pub(super) fn versitygw() -> Self {
        static SHARED: Mutex<Weak<testkit::ObjectStore>> = Mutex::new(Weak::new());
        Self::on(&SHARED, || testkit::ObjectStore::versitygw().unwrap())
    }

    fn on(
        shared: &Mutex<Weak<testkit::ObjectStore>>,
        start: impl Fn() -> testkit::ObjectStore,
    ) -> Self {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let server = shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(start());
            // On both, a directory of the data is a bucket.
            std::fs::create_dir(server.directory.path().join("data").join(BUCKET)).unwrap();
            *shared = Arc::downgrade(&server);
            server
        });
        let prefix = format!("{:x}", rand());
        Self { server, prefix }
    }

    pub(super) fn store(&self) -> AmazonS3 {
        self.store_as(self.server.secret_key, BUCKET)
    }

    pub(super) fn store_as(&self, secret: &str, bucket: &str) -> AmazonS3 {
        AmazonS3Builder::new()
            .with_endpoint(&self.server.endpoint)
            .with_allow_http(true)
            .with_region(self.server.region)
            .with_bucket_name(bucket)
            .with_access_key_id(self.server.access_key)
            .with_secret_access_key(secret)
            .with_http_connector(Plain)
            .build()
            .unwrap()
    }

    pub(super) async fn lock(
        &self,
        store: AmazonS3,
    ) -> Result<ObjectLock, lucarne_storage::LockError> {
        let location = format!("{}/{BUCKET}/{}", self.server.endpoint, self.prefix);
        ObjectLock::open(Arc::new(store), &self.prefix, location).await
    }
}

#[async_trait]
impl LockBackend for Bucket {
    async fn open(&self) -> Box<dyn Lock> {
        Box::new(self.lock(self.store()).await.unwrap())
    }
}

fn rand() -> u64 {
    use std::hash::BuildHasher;
    std::hash::RandomState::new().hash_one(0)
}

/// HTTP/1.1 without TLS: what loopback needs.
#[derive(Debug)]
struct Plain;

impl HttpConnector for Plain {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Ok(HttpClient::new(PlainClient(client)))
    }
}

struct PlainClient(Client<Tcp, HttpRequestBody>);

impl fmt::Debug for PlainClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainClient")
    }
}

#[async_trait]
impl HttpService for PlainClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.0.request(request).await;
        let answer = answer.map_err(|e| HttpError::new(HttpErrorKind::Request, e))?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await;
        let body = body.map_err(|e| HttpError::new(HttpErrorKind::Decode, e))?;
        Ok(HttpResponse::from_parts(
            parts,
            HttpResponseBody::from(body.to_bytes()),
        ))
    }
}
