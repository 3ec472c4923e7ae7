//! [`CachedAssets`]: files of an object store that readers requested, cached on disk.
//!
//! Only immutable files are cached: full tiles and issuers, each under its path, with a sum that
//! detects a file that a crash left torn. Only bytes that the log has compared with its tree are
//! cached: otherwise a single wrong response would outlive the repair of the store. The log itself
//! ([`Assets::get`]) always reads the store, so that it notices an emptied store although readers
//! could still get some of the files.

mod disk;
mod lru;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use self::disk::Disk;
use crate::{Asset, AssetError, Assets, ForReader, Observer, Repairs, Stats};

/// Assets whose immutable files are cached in a directory, bounded in bytes, from the first request
/// on.
pub struct CachedAssets {
    assets: Arc<dyn Assets>,
    disk: Arc<Disk>,
    observer: Arc<dyn Observer>,
}

impl CachedAssets {
    /// Caches at most `bytes` in `directory`, which is created if necessary. No other log may use
    /// the directory, because its files are served as this log's. Files of an earlier process are
    /// registered in the background.
    ///
    /// Must be called within a tokio runtime. If the directory cannot be written, the cache logs a
    /// warning and stores nothing.
    pub fn new(
        assets: Arc<dyn Assets>,
        directory: &Path,
        bytes: u64,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let disk = Arc::new(Disk::new(directory, bytes));
        let (scanned, reported) = (disk.clone(), observer.clone());
        tokio::task::spawn_blocking(move || {
            scanned.scan();
            reported.cache_holds(scanned.bytes());
        });
        Self {
            assets,
            disk,
            observer,
        }
    }
}

/// Returns `true` if the file at this path never changes and is likely to be requested again.
fn is_immutable(path: &str) -> bool {
    let tile = path.starts_with("tile/") && !path.contains(".p/");
    tile || path.starts_with("issuer/")
}

#[async_trait]
impl Repairs for CachedAssets {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        self.assets.replace(asset).await
    }
}

#[async_trait]
impl Assets for CachedAssets {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError> {
        self.assets.stage(new_size, record).await
    }

    async fn staged(&self) -> Result<Vec<Bytes>, AssetError> {
        self.assets.staged().await
    }

    async fn staged_beyond(&self, size: u64) -> Result<Vec<Bytes>, AssetError> {
        self.assets.staged_beyond(size).await
    }

    async fn staged_now(&self) -> Result<Vec<Bytes>, AssetError> {
        self.assets.staged_now().await
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError> {
        self.assets.publish(assets).await
    }

    async fn confirm_published(&self) -> Result<(), AssetError> {
        self.assets.confirm_published().await
    }

    fn others(&self) -> Option<String> {
        self.assets.others()
    }

    async fn settle(&self, size: u64) -> Result<(), AssetError> {
        self.assets.settle(size).await
    }

    fn publishes_durably(&self) -> bool {
        self.assets.publishes_durably()
    }

    async fn close(&self) -> Result<(), AssetError> {
        self.assets.close().await
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        self.assets.get(path).await
    }

    async fn get_for_reader(&self, path: &str) -> Result<Option<ForReader>, AssetError> {
        if !is_immutable(path) {
            return self.assets.get_for_reader(path).await;
        }
        if let Some(bytes) = self.disk.read(path).await {
            self.observer.cache(true);
            return Ok(Some(ForReader {
                is_cached: true,
                ..bytes.into()
            }));
        }
        self.observer.cache(false);
        self.assets.get_for_reader(path).await
    }

    fn keep_for_readers(&self, path: &str, bytes: &Bytes) {
        if is_immutable(path) {
            let (path, bytes) = (path.to_owned(), bytes.clone());
            let observer = self.observer.clone();
            self.disk
                .clone()
                .keep(path, bytes, move |held| observer.cache_holds(held));
        }
    }

    async fn forget_for_readers(&self, path: &str) {
        self.disk.clone().discard(path.to_owned()).await;
        self.observer.cache_holds(self.disk.bytes());
    }

    async fn remove_partials(&self, tiles: &[String]) -> Result<(), AssetError> {
        self.assets.remove_partials(tiles).await
    }

    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, AssetError> {
        self.assets.partials(tile_path).await
    }

    async fn beside(&self, tile_path: &str) -> Result<Option<Vec<String>>, AssetError> {
        self.assets.beside(tile_path).await
    }

    fn keeps_private(&self) -> bool {
        self.assets.keeps_private()
    }

    async fn put_private(&self, name: &str, bytes: Bytes) -> Result<(), AssetError> {
        self.assets.put_private(name, bytes).await
    }

    async fn get_private(&self, name: &str, max: u64) -> Result<Option<Bytes>, AssetError> {
        self.assets.get_private(name, max).await
    }

    async fn headroom(&self) -> Result<Option<u64>, AssetError> {
        self.assets.headroom().await
    }

    fn stats(&self) -> &Stats {
        self.assets.stats()
    }

    fn location(&self) -> String {
        self.assets.location()
    }
}
