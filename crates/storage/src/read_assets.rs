//! [`ReadAssets`]: the files of a log for its readers.

use std::sync::Arc;

use bytes::Bytes;

use crate::{AssetError, Assets, DiskCache, OpenFile};

/// The files of a log for readers: from a cache on disk, if there is one, or from the store.
///
/// Only the read path has this type. All other code reads the [store](Self::store), because a cache
/// may have files that the store has lost.
#[derive(Clone)]
pub struct ReadAssets {
    store: Arc<dyn Assets>,
    cache: Option<Arc<DiskCache>>,
}

/// A file for a reader.
#[derive(Debug)]
pub struct ForReader {
    /// The bytes exactly as stored.
    pub bytes: Bytes,
    /// The open file that the bytes were read from; `None` unless sending from the file is cheaper.
    pub file: Option<OpenFile>,
    /// Whether the bytes come from a cache. The store itself may have lost the file.
    pub is_cached: bool,
}

impl From<Bytes> for ForReader {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            file: None,
            is_cached: false,
        }
    }
}

impl ReadAssets {
    /// Creates a reader of a store without a cache.
    pub fn uncached(store: Arc<dyn Assets>) -> Self {
        Self { store, cache: None }
    }

    /// Creates a reader of a store whose immutable files are cached on disk.
    pub fn cached(store: Arc<dyn Assets>, cache: Arc<DiskCache>) -> Self {
        Self {
            store,
            cache: Some(cache),
        }
    }

    /// Returns the store itself.
    pub fn store(&self) -> &Arc<dyn Assets> {
        &self.store
    }

    /// Returns a file for a reader. A published checkpoint must cover the file. Immutable files may
    /// come from the cache, and the caller must verify that the log wrote these bytes.
    ///
    /// # Errors
    /// The errors of [`Assets::get`].
    pub async fn get(&self, path: &str) -> Result<Option<ForReader>, AssetError> {
        if let Some(cache) = &self.cache
            && let Some(bytes) = cache.get(path).await
        {
            return Ok(Some(ForReader {
                is_cached: true,
                ..bytes.into()
            }));
        }
        let found = self.store.get_open(path).await?;
        Ok(found.map(|(bytes, file)| ForReader {
            file,
            ..bytes.into()
        }))
    }

    /// Allows the cache to keep these bytes. The caller got them from [`get`](Self::get) and has
    /// verified that the log wrote them.
    pub fn keep(&self, path: &str, bytes: &Bytes) {
        if let Some(cache) = &self.cache {
            cache.keep(path, bytes);
        }
    }

    /// Removes a file from the cache because its bytes differ from the bytes of the log.
    pub async fn forget(&self, path: &str) {
        if let Some(cache) = &self.cache {
            cache.forget(path).await;
        }
    }
}
