use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rusty_s3::{Credentials, S3Action, UrlStyle};

use crate::{ObjectStore, raw_exchange, stores::Shared, wait::POLL};

/// Timeout for creating a bucket and for each request, and validity of a signature.
const BUCKET_TIMEOUT: Duration = Duration::from_secs(30);

/// A separate bucket in a store that other tests may use at the same time. Starting a store for
/// each test would take longer than the tests.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// The store.
    pub store: Arc<ObjectStore>,
    /// The bucket's name.
    pub name: String,
}

impl Bucket {
    /// Creates a bucket in versitygw.
    ///
    /// # Errors
    /// The errors of [`ObjectStore::versitygw`], or of the store.
    pub async fn versitygw() -> Result<Self> {
        static SHARED: Shared<ObjectStore> = Shared::new();
        Self::new(SHARED.get(ObjectStore::versitygw)?).await
    }

    /// Creates a bucket in MinIO.
    ///
    /// # Errors
    /// The errors of [`ObjectStore::minio`], or of the store.
    pub async fn minio() -> Result<Self> {
        static SHARED: Shared<ObjectStore> = Shared::new();
        Self::new(SHARED.get(ObjectStore::minio)?).await
    }

    /// Creates a bucket in this store.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn new(store: Arc<ObjectStore>) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let name = format!("bucket-{}", NEXT.fetch_add(1, Relaxed));
        let bucket = Self { store, name };
        let url = bucket
            .signer()?
            .create_bucket(&bucket.keys())
            .sign(BUCKET_TIMEOUT);
        let start = Instant::now();
        loop {
            let answer = bucket.ask("PUT", &url).await?;
            if answer.starts_with("HTTP/1.1 200") {
                break;
            }
            // MinIO returns 503 for a while after it has reported that it is ready.
            ensure!(
                answer.starts_with("HTTP/1.1 503") && start.elapsed() < BUCKET_TIMEOUT,
                "{} cannot create a bucket: {answer}",
                bucket.store.endpoint
            );
            // Polled, because a store does not report when it is ready.
            tokio::time::sleep(POLL).await;
        }
        Ok(bucket)
    }

    /// Returns path and query of a signed `GET` of this object, valid for half a minute.
    ///
    /// # Errors
    /// If endpoint or name result in an invalid URL.
    pub fn signed_get(&self, key: &str) -> Result<String> {
        let (signer, keys) = (self.signer()?, self.keys());
        let url = signer.get_object(Some(&keys), key).sign(BUCKET_TIMEOUT);
        Ok(below(&url))
    }

    /// Deletes an object with the keys of the bucket.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let (signer, keys) = (self.signer()?, self.keys());
        let url = signer.delete_object(Some(&keys), key).sign(BUCKET_TIMEOUT);
        let answer = self.ask("DELETE", &url).await?;
        ensure!(
            answer.starts_with("HTTP/1.1 204"),
            "deleting {key}: {answer}"
        );
        Ok(())
    }

    /// Puts an object with the keys of the bucket.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let (signer, keys) = (self.signer()?, self.keys());
        let url = signer.put_object(Some(&keys), key).sign(BUCKET_TIMEOUT);
        let answer = self.ask_with("PUT", &url, bytes).await?;
        let answer = String::from_utf8_lossy(&answer);
        ensure!(
            answer.starts_with("HTTP/1.1 200"),
            "writing {key}: {answer}"
        );
        Ok(())
    }

    /// Returns the bytes of an object, without headers.
    ///
    /// # Errors
    /// The error of the store.
    pub async fn get(&self, key: &str) -> Result<Vec<u8>> {
        let (signer, keys) = (self.signer()?, self.keys());
        let url = signer.get_object(Some(&keys), key).sign(BUCKET_TIMEOUT);
        let answer = self.ask_with("GET", &url, &[]).await?;
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let words = || String::from_utf8_lossy(&answer).into_owned();
        ensure!(answer.starts_with(b"HTTP/1.1 200"), "{key}: {}", words());
        Ok(answer[head.with_context(words)? + 4..].to_vec())
    }

    /// Returns the response to a request without a body.
    async fn ask(&self, method: &str, url: &url::Url) -> Result<String> {
        let answer = self.ask_with(method, url, &[]).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    async fn ask_with(&self, method: &str, url: &url::Url, body: &[u8]) -> Result<Vec<u8>> {
        let mut request = format!(
            "{method} {} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            below(url),
            self.store.address,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        raw_exchange(self.store.address, &request, BUCKET_TIMEOUT).await
    }

    fn signer(&self) -> Result<rusty_s3::Bucket> {
        let endpoint = self
            .store
            .endpoint
            .parse()
            .context("parsing the store's endpoint")?;
        let (name, region) = (self.name.clone(), self.store.region);
        Ok(rusty_s3::Bucket::new(
            endpoint,
            UrlStyle::Path,
            name,
            region,
        )?)
    }

    fn keys(&self) -> Credentials {
        Credentials::new(self.store.access_key, self.store.secret_key)
    }
}

fn below(url: &url::Url) -> String {
    format!("{}?{}", url.path(), url.query().unwrap_or_default())
}
