//! The data and the lock of logs, opened when they are first needed.
//!
//! A missing directory, or a store that does not respond, is then a failure of the logs that need
//! it. The supervisors of these logs report the failure and retry, and the process starts in any
//! case.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_log::Turn;
use lucarne_storage::{
    Asset, AssetError, Assets, DiskCache, JournalContents, Lock, LockError, LogId, Observer,
    OpenFile, PosixAssets, PosixRepairs, ReadAssets, Repairs, SqlLock, Stats, StoreDate, object,
};

use crate::config::{DataPlace, LockPlace};
use crate::files::is_absent;
use crate::late::Late;

/// Opens the data of an existing log.
///
/// # Errors
/// See [`PosixAssets::open`] and [`object::open`].
pub(crate) async fn assets(
    place: &DataPlace,
    observer: Arc<dyn Observer>,
) -> Result<Arc<dyn Assets>, AssetError> {
    match place {
        DataPlace::Directory(directory) => {
            let directory = directory.clone();
            blocking(move || PosixAssets::open(directory)).await
        }
        DataPlace::Bucket(config) => object::open(config, observer).await,
    }
}

/// Opens the location of a new log's data. Creates a directory, but not a bucket.
///
/// # Errors
/// See [`PosixAssets::create`] and [`object::open`].
pub(crate) async fn new_assets(place: &DataPlace) -> Result<Arc<dyn Assets>, AssetError> {
    match place {
        DataPlace::Directory(directory) => {
            let directory = directory.clone();
            blocking(move || PosixAssets::create(directory)).await
        }
        DataPlace::Bucket(_) => assets(place, Arc::new(())).await,
    }
}

pub(crate) async fn blocking(
    open: impl FnOnce() -> Result<PosixAssets, AssetError> + Send + 'static,
) -> Result<Arc<dyn Assets>, AssetError> {
    match tokio::task::spawn_blocking(open).await {
        Ok(opened) => Ok(Arc::new(opened?)),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// Opens an existing lock.
///
/// # Errors
/// [`LockError::Failed`] if the lock does not respond, else [`LockError::Unusable`].
pub(crate) async fn lock(
    place: &LockPlace,
    observer: Arc<dyn Observer>,
) -> Result<Arc<dyn Lock>, LockError> {
    Ok(match place {
        LockPlace::Sqlite(path) if is_absent(path) => {
            return Err(LockError::Unusable {
                location: path.display().to_string(),
                reason:
                    "does not exist; if no log was ever created with this lock, run `lucarne init`"
                        .into(),
            });
        }
        LockPlace::Sqlite(path) => Arc::new(SqlLock::open(&sqlite(path)).await?),
        LockPlace::Server(url) => Arc::new(SqlLock::open(url).await?),
        LockPlace::Bucket(config) => object::lock(config, observer).await?,
    })
}

/// Creates a lock, if this kind of lock can be created, and opens it.
///
/// # Errors
/// [`LockError::Failed`] if the lock does not respond, else [`LockError::Unusable`]. An existing
/// database file or table is unusable; a lock in a bucket is only opened.
pub(crate) async fn new_lock(place: &LockPlace) -> Result<Arc<dyn Lock>, LockError> {
    Ok(match place {
        LockPlace::Sqlite(path) => Arc::new(SqlLock::create(&sqlite(path)).await?),
        LockPlace::Server(url) => Arc::new(SqlLock::create(url).await?),
        LockPlace::Bucket(config) => object::lock(config, Arc::new(())).await?,
    })
}

/// Opens the data of a log for reading, while another process may have them open. Nothing is
/// written.
///
/// # Errors
/// See [`PosixAssets::watch`] and [`object::open`].
pub(crate) async fn watched_assets(place: &DataPlace) -> Result<Arc<dyn Assets>, AssetError> {
    match place {
        DataPlace::Directory(directory) => {
            let directory = directory.clone();
            blocking(move || PosixAssets::watch(directory)).await
        }
        DataPlace::Bucket(config) => object::open(config, Arc::new(())).await,
    }
}

/// Opens the data of a log to repair damaged files, while another process may have them open.
///
/// # Errors
/// See [`PosixRepairs::open`] and [`object::repairs`].
pub(crate) async fn repairs(place: &DataPlace) -> Result<Arc<dyn Repairs>, AssetError> {
    match place {
        DataPlace::Directory(directory) => Ok(Arc::new(PosixRepairs::open(directory)?)),
        DataPlace::Bucket(config) => object::repairs(config).await,
    }
}

/// Returns the contents of the journal of a log, while another process may have it open.
///
/// # Errors
/// If the journal cannot be read.
pub(crate) async fn journal(place: &DataPlace) -> Result<JournalContents, AssetError> {
    match place {
        DataPlace::Directory(directory) => PosixAssets::watch(directory)?.journal().await,
        DataPlace::Bucket(config) => object::journal(config).await,
    }
}

/// Opens an existing lock for reading, while another process may commit to it. Nothing is written.
///
/// # Errors
/// See [`lock`].
pub(crate) async fn watched_lock(place: &LockPlace) -> Result<Arc<dyn Lock>, LockError> {
    Ok(match place {
        LockPlace::Sqlite(path) => Arc::new(SqlLock::look(&sqlite(path)).await?),
        LockPlace::Server(url) => Arc::new(SqlLock::look(url).await?),
        LockPlace::Bucket(config) => object::look_into_lock(config)?,
    })
}

/// Returns the URL of a path, so that no path is taken for another URL.
pub(crate) fn sqlite(path: &std::path::Path) -> String {
    format!("sqlite:{}", path.display())
}

/// The cache on disk for files of a bucket that readers have requested.
pub(crate) struct ReadCache {
    /// Directory of the cache.
    pub(crate) directory: PathBuf,
    /// Maximum size in bytes; 0 disables the cache.
    pub(crate) bytes: u64,
}

/// The data of a log, opened at the first access. Before its turn, this process only reads the
/// data, because another process has them open.
pub(crate) struct LateAssets {
    place: DataPlace,
    /// The cache for readers of a bucket. Before the turn of this process, another process uses the
    /// directory of the cache.
    cache: Option<Arc<DiskCache>>,
    observer: Arc<dyn Observer>,
    turn: Turn,
    watched: Late<Arc<dyn Assets>, AssetError>,
    late: Late<Arc<dyn Assets>, AssetError>,
    none_yet: Stats,
}

impl LateAssets {
    /// Returns the data for the log and its readers.
    pub(crate) fn for_readers(
        place: &DataPlace,
        ReadCache { directory, bytes }: ReadCache,
        observer: Arc<dyn Observer>,
        turn: Turn,
    ) -> ReadAssets {
        let caches = place.directory().is_none() && bytes > 0;
        let cache = || Arc::new(DiskCache::new(&directory, bytes, observer.clone()));
        let cache = caches.then(cache);
        let assets = Arc::new(LateAssets {
            place: place.clone(),
            cache: cache.clone(),
            observer,
            turn,
            watched: Late::default(),
            late: Late::default(),
            none_yet: Stats::default(),
        });
        match cache {
            Some(cache) => ReadAssets::cached(assets, cache),
            None => ReadAssets::uncached(assets),
        }
    }

    async fn open(&self) -> Result<&dyn Assets, AssetError> {
        let open = || {
            let (place, observer) = (self.place.clone(), self.observer.clone());
            let cache = self.cache.clone();
            async move {
                let assets = assets(&place, observer).await?;
                if let Some(cache) = cache {
                    cache.start();
                }
                Ok(assets)
            }
        };
        let silent = || AssetError::Silent {
            directory: self.place.to_string(),
        };
        if !self.turn.has_come() {
            let place = self.place.clone();
            let watch = || async move { watched_assets(&place).await };
            return Ok(&**self.watched.get_or_open(watch, silent).await?);
        }
        let opened = self.late.get_or_open(open, silent).await?;
        Ok(&**opened)
    }
}

#[async_trait]
impl Repairs for LateAssets {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        self.open().await?.replace(asset).await
    }
}

#[async_trait]
impl Assets for LateAssets {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError> {
        self.open().await?.stage(new_size, record).await
    }

    async fn staged(&self) -> Result<Vec<Bytes>, AssetError> {
        self.open().await?.staged().await
    }

    async fn staged_beyond(&self, size: u64) -> Result<Vec<Bytes>, AssetError> {
        self.open().await?.staged_beyond(size).await
    }

    async fn staged_now(&self) -> Result<Vec<Bytes>, AssetError> {
        self.open().await?.staged_now().await
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError> {
        self.open().await?.publish(assets).await
    }

    async fn amend_checkpoint(&self, old: &Bytes, new: Bytes) -> Result<bool, AssetError> {
        self.open().await?.amend_checkpoint(old, new).await
    }

    fn replacement_interval(&self) -> Duration {
        let opened = self.late.get();
        opened.map_or(Duration::ZERO, |assets| assets.replacement_interval())
    }

    async fn confirm_published(&self) -> Result<(), AssetError> {
        self.open().await?.confirm_published().await
    }

    fn others(&self) -> Option<String> {
        self.late.get().and_then(|assets| assets.others())
    }

    async fn settle(&self, size: u64) -> Result<(), AssetError> {
        self.open().await?.settle(size).await
    }

    fn publishes_durably(&self) -> bool {
        let opened = self.late.get();
        opened.is_some_and(|assets| assets.publishes_durably())
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        self.open().await?.get(path).await
    }

    async fn get_open(&self, path: &str) -> Result<Option<(Bytes, Option<OpenFile>)>, AssetError> {
        self.open().await?.get_open(path).await
    }

    async fn close(&self) -> Result<(), AssetError> {
        match self.late.get() {
            Some(assets) => assets.close().await,
            None => Ok(()),
        }
    }

    async fn remove_partials(&self, tiles: &[String]) -> Result<(), AssetError> {
        self.open().await?.remove_partials(tiles).await
    }

    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, AssetError> {
        self.open().await?.partials(tile_path).await
    }

    async fn beside(&self, tile_path: &str) -> Result<Option<Vec<String>>, AssetError> {
        self.open().await?.beside(tile_path).await
    }

    fn keeps_private(&self) -> bool {
        let opened = self.late.get();
        opened.is_some_and(|assets| assets.keeps_private())
    }

    async fn put_private(&self, name: &str, bytes: Bytes) -> Result<(), AssetError> {
        self.open().await?.put_private(name, bytes).await
    }

    async fn get_private(&self, name: &str, max: u64) -> Result<Option<Bytes>, AssetError> {
        self.open().await?.get_private(name, max).await
    }

    async fn headroom(&self) -> Result<Option<u64>, AssetError> {
        self.open().await?.headroom().await
    }

    fn stats(&self) -> &Stats {
        self.late
            .get()
            .map_or(&self.none_yet, |assets| assets.stats())
    }

    fn location(&self) -> String {
        self.place.to_string()
    }
}

/// The lock of all logs, opened when it is first needed, and not before the turn of this process.
pub(crate) struct LateLock {
    place: LockPlace,
    observer: Arc<dyn Observer>,
    turn: Turn,
    late: Late<Arc<dyn Lock>, LockError>,
}

impl LateLock {
    pub(crate) fn new(place: &LockPlace, observer: Arc<dyn Observer>, turn: Turn) -> Self {
        LateLock {
            place: place.clone(),
            observer,
            turn,
            late: Late::default(),
        }
    }

    /// Opens the lock, if it is not open.
    ///
    /// # Errors
    /// See [`lock`].
    pub(crate) async fn open(&self) -> Result<&dyn Lock, LockError> {
        let open = || {
            let (place, observer) = (self.place.clone(), self.observer.clone());
            async move {
                let lock = lock(&place, observer).await?;
                if let Some(doubt) = lock.doubt() {
                    tracing::warn!(lock = %place, doubt, "the lock may not be the newest");
                }
                Ok(lock)
            }
        };
        let failed = |reason: &str| LockError::Failed {
            location: self.place.to_string(),
            action: "open it",
            reason: reason.into(),
        };
        if !self.turn.has_come() {
            return Err(failed("another process has not handed the lock over yet"));
        }
        let silent = || failed("the lock has not responded yet");
        let opened = self.late.get_or_open(open, silent).await?;
        Ok(&**opened)
    }
}

#[async_trait]
impl Lock for LateLock {
    async fn load(&self, log: &LogId) -> Result<Option<Vec<u8>>, LockError> {
        self.open().await?.load(log).await
    }

    async fn create(&self, log: &LogId, body: &[u8]) -> Result<(), LockError> {
        self.open().await?.create(log, body).await
    }

    async fn replace(&self, log: &LogId, old: &[u8], new: &[u8]) -> Result<(), LockError> {
        self.open().await?.replace(log, old, new).await
    }

    async fn check(&self) -> Result<(), LockError> {
        self.open().await?.check().await
    }

    async fn date(&self) -> Result<Option<StoreDate>, LockError> {
        self.open().await?.date().await
    }

    async fn close(&self) {
        if let Some(lock) = self.late.get() {
            lock.close().await;
        }
    }

    fn location(&self) -> String {
        self.place.to_string()
    }
}
