//! Files of a log, some of them replaced in memory.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ctread::{Source, SourceError};
use lucarne_storage::{Asset, AssetError, Repairs};
use parking_lot::RwLock;

/// The files of a log, with some of them replaced in memory. A repair of an overlay changes only
/// the memory.
pub struct Overlay {
    files: Arc<dyn Source>,
    instead: RwLock<HashMap<String, Bytes>>,
    /// The destination of a later repair, which may refuse files.
    destination: Option<Arc<dyn Repairs>>,
}

impl Overlay {
    /// Creates an overlay of `files` in which `instead` replaces the files of the same path.
    pub fn new(files: Arc<dyn Source>, instead: impl IntoIterator<Item = (String, Bytes)>) -> Self {
        let instead = RwLock::new(instead.into_iter().collect());
        Overlay {
            files,
            instead,
            destination: None,
        }
    }

    /// Creates an overlay that refuses the files that a repair could not write to `destination`.
    pub fn trial(files: Arc<dyn Source>, destination: Arc<dyn Repairs>) -> Self {
        Overlay {
            destination: Some(destination),
            ..Overlay::new(files, [])
        }
    }
}

#[async_trait]
impl Source for Overlay {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        let instead = self.instead.read().get(path).cloned();
        match instead {
            Some(bytes) => Ok(Some(bytes)),
            None => self.files.read(path).await,
        }
    }
}

#[async_trait]
impl Repairs for Overlay {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        if let Some(destination) = &self.destination {
            destination.may_replace(&asset.path).await?;
        }
        self.instead.write().insert(asset.path, asset.bytes);
        Ok(None)
    }
}
