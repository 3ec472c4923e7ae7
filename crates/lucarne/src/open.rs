//! The directories that logs stand on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_storage::{Asset, Assets, Error, PosixAssets, Stats};
use tokio::sync::OnceCell;

/// The directory of a log, opened when it is first needed.
///
/// A directory that is missing, locked or unreadable is then the failure of
/// this log alone, which its supervisor reports and tries again.
pub(crate) struct LateAssets {
    directory: PathBuf,
    opened: OnceCell<Arc<PosixAssets>>,
    none_yet: Stats,
}

impl LateAssets {
    pub(crate) fn new(directory: &Path) -> Self {
        LateAssets {
            directory: directory.to_path_buf(),
            opened: OnceCell::new(),
            none_yet: Stats::default(),
        }
    }

    async fn open(&self) -> Result<&PosixAssets, Error> {
        let open = async || {
            let directory = self.directory.clone();
            let opening = tokio::task::spawn_blocking(move || PosixAssets::open(directory));
            match opening.await {
                Ok(assets) => assets.map(Arc::new),
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        };
        let assets = self.opened.get_or_try_init(open).await?;
        Ok(assets)
    }
}

#[async_trait]
impl Assets for LateAssets {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), Error> {
        self.open().await?.stage(new_size, record).await
    }

    async fn staged(&self) -> Result<Vec<Bytes>, Error> {
        self.open().await?.staged().await
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), Error> {
        self.open().await?.publish(assets).await
    }

    async fn settle(&self, size: u64) -> Result<(), Error> {
        self.open().await?.settle(size).await
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>, Error> {
        self.open().await?.get(path).await
    }

    async fn remove_partials(&self, tiles: &[String]) -> Result<(), Error> {
        self.open().await?.remove_partials(tiles).await
    }

    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, Error> {
        self.open().await?.partials(tile_path).await
    }

    async fn headroom(&self) -> Result<Option<u64>, Error> {
        self.open().await?.headroom().await
    }

    fn stats(&self) -> &Stats {
        self.opened
            .get()
            .map_or(&self.none_yet, |assets| assets.stats())
    }

    fn location(&self) -> String {
        self.directory.display().to_string()
    }
}
