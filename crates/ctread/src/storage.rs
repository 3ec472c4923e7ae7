//! Files in a directory or in a bucket.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_storage::{Assets, read_file};

use crate::{Source, SourceError};

/// Directory whose files are read directly, also while other processes use them.
#[derive(Clone, Debug)]
pub struct Directory(pub PathBuf);

#[async_trait]
impl Source for Directory {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        let (directory, path) = (self.0.clone(), path.to_owned());
        let read = tokio::task::spawn_blocking(move || read_file(&directory, &path)).await;
        let read = read.map_err(SourceError::unavailable)?;
        read.map_err(SourceError::unavailable)
    }
}

/// Files in a bucket, or in any other storage of a log. Caches are not used.
pub struct Bucket(pub Arc<dyn Assets>);

#[async_trait]
impl Source for Bucket {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        self.0.get(path).await.map_err(SourceError::unavailable)
    }
}
