//! The files of a log where they are: in a directory, in a bucket, behind a URL.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_log::Files;
use lucarne_net::{Client, ClientError};
use lucarne_storage::Assets;

/// Most bytes of a file behind a URL: a tile of 256 entries of 128 kB each.
const MOST: usize = 32 << 20;
/// Times that a URL is asked before its answer is taken for none.
const ATTEMPTS: u32 = 4;
/// The pause before it is asked again, twice as long each time.
const PAUSE: Duration = Duration::from_millis(500);

/// A directory, read as plain files: beside whatever runs in it.
pub(super) struct Directory(pub(super) PathBuf);

#[async_trait]
impl Files for Directory {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, String> {
        let file = self.0.join(path);
        let read = tokio::task::spawn_blocking(move || std::fs::read(file)).await;
        match read.map_err(|error| error.to_string())? {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// A bucket.
pub(super) struct Bucket(pub(super) Arc<dyn Assets>);

#[async_trait]
impl Files for Bucket {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, String> {
        self.0.get(path).await.map_err(|error| error.to_string())
    }
}

/// A monitoring prefix, with its trailing slash.
pub(super) struct Prefix {
    pub(super) url: String,
    pub(super) client: Client,
}

#[async_trait]
impl Files for Prefix {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, String> {
        let url = format!("{}{path}", self.url);
        let mut pause = PAUSE;
        for attempt in 1.. {
            match self.client.get(&url, MOST).await {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(ClientError::Status(status)) if matches!(status.as_u16(), 404 | 410) => break,
                Err(error) if attempt == ATTEMPTS => return Err(error.to_string()),
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause *= 2;
        }
        Ok(None)
    }
}

/// Files, and how much of them was read.
pub(super) struct Counted {
    files: Arc<dyn Files>,
    bytes: AtomicU64,
}

impl Counted {
    pub(super) fn new(files: Arc<dyn Files>) -> Self {
        let bytes = AtomicU64::new(0);
        Counted { files, bytes }
    }

    /// Bytes so far, as they are stored.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Files for Counted {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, String> {
        let read = self.files.read(path).await?;
        let length = read.as_ref().map_or(0, Bytes::len) as u64;
        self.bytes.fetch_add(length, Ordering::Relaxed);
        Ok(read)
    }
}
