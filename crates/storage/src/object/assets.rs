//! [`ObjectAssets`]: the files of a log as objects in a bucket, and their repair while the log's
//! process serves them.

mod checkpoint;
mod journal;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, PutOptions, PutPayload};

use self::checkpoint::Published;
use self::journal::{JOURNAL, Journal, Name, header, staged_path};
use self::objects::{headers, immutable, private_headers};
use super::{Bucket, ObjectStoreConfig, RequestPolicy, failure};
use crate::assets::KEPT;
use crate::file::max_file_bytes;
use crate::{Asset, AssetError, Assets, Observer, Removed, Repairs, Stats, path};

/// Assets in a bucket of S3, Google Cloud Storage or Azure. The [module](super) describes two
/// processes that open the same bucket.
pub struct ObjectAssets {
    store: Arc<dyn ObjectStore>,
    /// The same store with short timeouts, for health checks.
    hasty: Arc<dyn ObjectStore>,
    key_prefix: String,
    parallel: usize,
    location: String,
    journal: Journal,
    published: Published,
    replacement_interval: Duration,
    stats: Arc<Stats>,
}

/// The time between two replacements of an object that GCS accepts in the long run.
const GCS_INTERVAL: Duration = Duration::from_secs(1);

impl ObjectAssets {
    /// Connects to the bucket, which must exist, and verifies with one request that the log may
    /// list it.
    ///
    /// # Errors
    ///
    /// [`AssetError::Configuration`], [`AssetError::NoBucket`], [`AssetError::Refused`],
    /// [`AssetError::ClockSkew`] or [`AssetError::Unavailable`]. A prefix without any object is not
    /// an error here: the lock knows whether the log is new.
    pub async fn open(config: &ObjectStoreConfig) -> Result<Self, AssetError> {
        Self::open_observed(config, Arc::new(())).await
    }

    /// Connects like [`open`](Self::open) and reports every request to `observer`.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub async fn open_observed(
        config: &ObjectStoreConfig,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, AssetError> {
        config.check_prefix()?;
        let stats = Arc::new(Stats::observed(observer));
        let hasty = ObjectStoreConfig {
            policy: RequestPolicy::hasty(),
            ..config.clone()
        };
        let assets = Self {
            store: config.connect(stats.clone())?,
            hasty: hasty.connect(stats.clone())?,
            key_prefix: config.key_prefix.clone(),
            parallel: config.parallel.max(1),
            location: config.location(),
            journal: Journal::default(),
            published: Published::default(),
            replacement_interval: match &config.bucket {
                Bucket::Gcs(_) => GCS_INTERVAL,
                Bucket::S3(_) | Bucket::Azure(_) => Duration::ZERO,
            },
            stats,
        };
        let journal = assets.key(JOURNAL)?;
        let first = assets.store.list(Some(&journal)).next().await;
        first
            .transpose()
            .map_err(|e| assets.failed("list", JOURNAL, &e))?;
        Ok(assets)
    }

    fn key(&self, path: &str) -> Result<Path, AssetError> {
        let key = Path::parse(format!("{}{path}", self.key_prefix));
        key.map_err(|_| AssetError::BadPath { path: path.into() })
    }

    /// Returns the path of a key within the log.
    fn path<'k>(&self, key: &'k Path) -> Option<&'k str> {
        key.as_ref().strip_prefix(&self.key_prefix)
    }

    fn failed(&self, action: &'static str, path: &str, error: &object_store::Error) -> AssetError {
        failure::sort(action, format!("{path} in {}", self.location), error)
    }

    fn usable(&self) -> Result<(), AssetError> {
        match self.journal.poison_found() {
            None => Ok(()),
            Some(reason) => Err(AssetError::Poisoned {
                location: self.location(),
                reason,
            }),
        }
    }

    /// Returns the damaged rounds of at most `size` entries, each with its place for messages.
    async fn damaged(&self, size: u64) -> Result<Vec<(Name, String)>, AssetError> {
        let mut damaged = Vec::new();
        let names = self.list_journal().await?;
        for name in names.into_iter().filter(|name| name.new_size <= size) {
            if let Err(AssetError::Damaged { file, .. }) = self.read_staged(name).await {
                damaged.push((name, file));
            }
        }
        Ok(damaged)
    }

    /// Stores a copy under the first free number, and returns its place for messages.
    async fn keep(&self, path: &str, bytes: Bytes) -> Result<String, AssetError> {
        let mut number = 1;
        loop {
            let name = format!("{KEPT}/{path}-{number}");
            if self.read(&name).await?.is_none() {
                self.write(&name, bytes.into(), PutOptions::default())
                    .await?;
                return Ok(format!("{name} in {}", self.location));
            }
            number += 1;
        }
    }
}

#[async_trait]
impl Assets for ObjectAssets {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError> {
        self.usable()?;
        if self.journal.is_closed() {
            self.journal.open(self.list_journal().await?);
        }
        let name = self.journal.begin(new_size);
        let path = staged_path(name);
        let options = PutOptions {
            attributes: private_headers(),
            extensions: immutable(),
            ..PutOptions::default()
        };
        let object = PutPayload::from_iter([header(&record), record]);
        let size = object.content_length() as u64;
        if let Err(error) = self.write(&path, object, options).await {
            self.journal.poison(error.to_string());
            return Err(error);
        }
        self.stats.appended(size);
        Ok(())
    }

    async fn staged(&self) -> Result<Vec<Bytes>, AssetError> {
        self.staged_beyond(0).await
    }

    async fn staged_beyond(&self, size: u64) -> Result<Vec<Bytes>, AssetError> {
        self.published.forget().await;
        match self.read_journal(size).await {
            Ok((names, records)) => {
                self.journal.open(names);
                Ok(records)
            }
            Err(error) => {
                self.journal.poison(error.to_string());
                Err(error)
            }
        }
    }

    async fn staged_now(&self) -> Result<Vec<Bytes>, AssetError> {
        Ok(self.journal().await?.into_records())
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError> {
        for asset in &assets {
            path::check(&asset.path)?;
        }
        stream::iter(assets.into_iter().map(Ok))
            .try_for_each_concurrent(self.parallel, |asset| self.put(asset))
            .await
    }

    async fn amend_checkpoint(&self, old: &Bytes, new: Bytes) -> Result<bool, AssetError> {
        self.amend(old, new).await
    }

    fn replacement_interval(&self) -> Duration {
        self.replacement_interval
    }

    /// Deletes staged objects. Published objects are already durable.
    async fn settle(&self, size: u64) -> Result<(), AssetError> {
        self.usable()?;
        let settled = self.journal.settled(size);
        let keys = settled.iter().map(|name| self.key(&staged_path(*name)));
        let keys = keys.collect::<Result<Vec<Path>, AssetError>>()?;
        self.delete(keys, |key| {
            if let Some(name) = key.filename().and_then(Name::parse) {
                self.journal.removed(&name);
            }
        })
        .await
    }

    fn publishes_durably(&self) -> bool {
        true
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        match path::check(path)? {
            checkpoint::PATH => self.checkpoint().await,
            path => self.read(path).await,
        }
    }

    async fn remove_partials(&self, tiles: &[String]) -> Result<(), AssetError> {
        let mut directories: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for tile in tiles {
            let tile = path::check(tile)?;
            let directory = tile.rsplit_once('/').map_or("", |(directory, _)| directory);
            directories.entry(directory).or_default().insert(tile);
        }
        for (directory, tiles) in directories {
            let partials = self.partials_of(directory, &tiles).await?;
            self.delete(partials, |_| self.stats.removed()).await?;
        }
        Ok(())
    }

    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, AssetError> {
        let directory = format!("{}.p", path::check(tile_path)?);
        let mut objects = self.store.list(Some(&self.key(&directory)?));
        let mut widths = Vec::new();
        while let Some(object) = objects.next().await {
            let key = object
                .map_err(|e| self.failed("list", &directory, &e))?
                .location;
            let name = self
                .path(&key)
                .and_then(|path| path.strip_prefix(&directory));
            widths.extend(name.and_then(|name| path::width(name.strip_prefix('/')?)));
        }
        widths.sort_unstable();
        Ok(widths)
    }

    async fn beside(&self, tile_path: &str) -> Result<Option<Vec<String>>, AssetError> {
        let directory = path::directory(tile_path)?.trim_end_matches('/');
        let key = self.key(directory)?;
        let listed = self.store.list_with_delimiter(Some(&key)).await;
        let listed = listed.map_err(|e| self.failed("list", directory, &e))?;
        let objects = listed.objects.iter().map(|object| &object.location);
        // A store that ignores the delimiter also lists objects of subdirectories.
        let first =
            |location: &Path| Some(location.prefix_match(&key)?.next()?.as_ref().to_owned());
        let names = objects.chain(&listed.common_prefixes).filter_map(first);
        let names: BTreeSet<String> = names.collect();
        Ok(Some(names.into_iter().collect()))
    }

    fn keeps_private(&self) -> bool {
        true
    }

    async fn put_private(&self, name: &str, bytes: Bytes) -> Result<(), AssetError> {
        let options = PutOptions::from(private_headers());
        self.write(&path::private(name)?, bytes.into(), options)
            .await
    }

    async fn get_private(&self, name: &str, max: u64) -> Result<Option<Bytes>, AssetError> {
        self.read_from(&self.store, &path::private(name)?, max)
            .await
    }

    async fn headroom(&self) -> Result<Option<u64>, AssetError> {
        let max = max_file_bytes(checkpoint::PATH);
        self.read_from(&self.hasty, checkpoint::PATH, max).await?;
        Ok(None)
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn location(&self) -> String {
        self.location.clone()
    }
}

#[async_trait]
impl Repairs for ObjectAssets {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        path::check(&asset.path)?;
        let kept = match self.read(&asset.path).await? {
            Some(bytes) => Some(self.keep(&asset.path, bytes).await?),
            None => None,
        };
        let mut options = PutOptions::from(headers(asset.kind));
        options.extensions = immutable();
        self.write(&asset.path, asset.bytes.into(), options).await?;
        Ok(kept)
    }

    async fn damaged_rounds(&self, size: u64) -> Result<Vec<String>, AssetError> {
        let damaged = self.damaged(size).await?;
        Ok(damaged.into_iter().map(|(_, file)| file).collect())
    }

    async fn remove_damaged_rounds(&self, size: u64) -> Result<Vec<Removed>, AssetError> {
        let mut removed = Vec::new();
        for (name, file) in self.damaged(size).await? {
            let path = staged_path(name);
            if let Some(bytes) = self.read(&path).await? {
                let kept = self
                    .keep(&format!("journal/{}", name.file()), bytes)
                    .await?;
                self.delete(vec![self.key(&path)?], |_| {}).await?;
                removed.push(Removed { file, kept });
            }
        }
        Ok(removed)
    }
}
