//! [`ObjectAssets`]: the files of a log as objects in a bucket.

mod checkpoint;
mod repairs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ::http::Extensions;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, ObjectStore, PutMode, PutOptions, PutPayload, PutResult,
};

use self::checkpoint::Published;
use super::http::{Immutable, Tries};
use super::journal::{self, Journal, Name};
use super::{ObjectStoreConfig, RequestPolicy, failure};
use crate::file::{check_length, max_file_bytes};
use crate::{
    Asset, AssetError, AssetKind, Assets, JournalContents, Observer, StagedRecord, Stats, path,
};

/// Assets in a bucket of S3, Google Cloud Storage or Azure. The [module](super) describes two
/// processes that open the same bucket.
pub struct ObjectAssets {
    store: Arc<dyn ObjectStore>,
    /// The same store with short timeouts, for checks that must end soon.
    hasty: Arc<dyn ObjectStore>,
    key_prefix: String,
    parallel: usize,
    location: String,
    journal: Journal,
    published: Published,
    stats: Arc<Stats>,
}

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

    async fn put(&self, asset: Asset) -> Result<(), AssetError> {
        let size = asset.bytes.len() as u64;
        if asset.kind == AssetKind::Checkpoint {
            self.replace_checkpoint(asset.bytes).await?;
        } else {
            let mut options = PutOptions::from(headers(asset.kind));
            if asset.kind != AssetKind::LogJson {
                options.extensions = immutable();
            }
            self.write(&asset.path, asset.bytes.into(), options).await?;
        }
        self.stats.published(size);
        Ok(())
    }

    async fn write(
        &self,
        path: &str,
        object: PutPayload,
        options: PutOptions,
    ) -> Result<(), AssetError> {
        let put = self.try_write(path, object, options).await?;
        put.map_err(|error| self.failed("write", path, &error))?;
        Ok(())
    }

    /// Puts an object, and retries transient errors of the store ([`failure::is_passing`]). The
    /// inner result is the store's response.
    async fn try_write(
        &self,
        path: &str,
        object: PutPayload,
        mut options: PutOptions,
    ) -> Result<object_store::Result<PutResult>, AssetError> {
        let key = self.key(path)?;
        options.extensions.insert(Tries::default());
        let conditional = options.mode != PutMode::Overwrite;
        let mut tries_left = 5;
        loop {
            let put = self.store.put_opts(&key, object.clone(), options.clone());
            let answer = put.await;
            let Err(error) = &answer else {
                return Ok(answer);
            };
            let decided = conditional && failure::is_lost(error);
            if decided || !failure::is_passing(error) || tries_left == 0 {
                return Ok(answer);
            }
            tries_left -= 1;
            // The concurrent work of the store ends within milliseconds and cannot be awaited.
            tokio::time::sleep(STUMBLE).await;
        }
    }

    /// Returns the stored bytes of an object.
    async fn read(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        self.read_from(&self.store, path, max_file_bytes(path))
            .await
    }

    /// Returns the stored bytes of an object of at most `most` bytes.
    async fn read_from(
        &self,
        store: &Arc<dyn ObjectStore>,
        path: &str,
        most: u64,
    ) -> Result<Option<Bytes>, AssetError> {
        let key = self.key(path)?;
        let mut options = GetOptions::default();
        options.extensions.insert(Tries::default());
        let found = store.get_opts(&key, options).await;
        if let Ok(found) = &found
            && let Err(unfit) = check_length(found.meta.size, most)
        {
            return Err(AssetError::io(
                "read",
                format!("{path} in {}", self.location),
                unfit.into(),
            ));
        }
        let read = async { found?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if failure::is_absent(&error) => Ok(None),
            Err(error) => Err(self.failed("read", path, &error)),
        }
    }

    /// Returns the names of the staged rounds, oldest first. The listing is paged: 1,000 names per
    /// request.
    async fn list_journal(&self) -> Result<Vec<Name>, AssetError> {
        let mut objects = self.store.list(Some(&self.key(JOURNAL)?));
        let mut names = Vec::new();
        while let Some(object) = objects.next().await {
            let object = object.map_err(|e| self.failed("list", JOURNAL, &e))?;
            match object.location.filename().and_then(Name::parse) {
                Some(name) => names.push(name),
                None => tracing::warn!(
                    key = %object.location,
                    "ignored: not an object of the journal of {}", self.location
                ),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the record, unless it has been removed since it was listed.
    async fn read_staged(&self, name: Name) -> Result<Option<Bytes>, AssetError> {
        let path = staged_path(name);
        let Some(object) = self.read(&path).await? else {
            return Ok(None);
        };
        journal::record(object)
            .map(Some)
            .map_err(|(offset, detail)| AssetError::Damaged {
                file: format!("{path} in {}", self.location),
                offset,
                detail: detail.into(),
            })
    }

    /// Returns the staged rounds, oldest first, without damaged rounds of at most `size` entries.
    /// Damaged rounds are evidence, and `settle` never removes them.
    async fn read_journal(&self, size: u64) -> Result<(Vec<Name>, Vec<Bytes>), AssetError> {
        let mut read = stream::iter(self.list_journal().await?)
            .map(async |name| (name, self.read_staged(name).await))
            .buffered(self.parallel);
        let (mut names, mut records) = (Vec::new(), Vec::new());
        while let Some((name, record)) = read.next().await {
            match record {
                Err(error @ AssetError::Damaged { .. }) if name.new_size <= size => {
                    tracing::warn!(
                        %error,
                        "skipped a damaged round, because it is published: run `lucarne repair` \
                         to remove it"
                    );
                }
                record => {
                    names.push(name);
                    records.extend(record?);
                }
            }
        }
        Ok((names, records))
    }

    /// Returns the content of the journal with the position of each record. Only reads, and
    /// tolerates processes that stage and remove rounds at the same time.
    ///
    /// # Errors
    ///
    /// If the store does not respond or refuses. Damage is part of the result.
    pub async fn journal(&self) -> Result<JournalContents, AssetError> {
        let names = self.list_journal().await?;
        let mut read = stream::iter(names)
            .map(async |name| (staged_path(name), self.read_staged(name).await))
            .buffered(self.parallel);
        let mut contents = JournalContents::default();
        while let Some((file, record)) = read.next().await {
            match record {
                Ok(Some(record)) => contents.records.push(StagedRecord {
                    file,
                    offset: 0,
                    bytes: journal::length(&record),
                    record,
                }),
                // The round was removed after it was listed.
                Ok(None) => {}
                Err(damage @ AssetError::Damaged { .. }) => contents.damage.push(damage),
                Err(error) => return Err(error),
            }
        }
        Ok(contents)
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

    /// Deletes objects in batches as large as the store allows (S3: 1,000), and calls `gone` for
    /// each deleted object.
    async fn delete(&self, keys: Vec<Path>, mut gone: impl FnMut(&Path)) -> Result<(), AssetError> {
        let keys: BoxStream<'static, _> = stream::iter(keys.into_iter().map(Ok)).boxed();
        let mut results = self.store.delete_stream(keys);
        let mut failure = None;
        while let Some(result) = results.next().await {
            match result {
                Ok(key) => gone(&key),
                Err(object_store::Error::NotFound { path, .. }) => gone(&Path::from(path)),
                Err(error) => failure = Some(self.failed("delete", "objects", &error)),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Returns the objects under `<tile>.p/` for tiles of one directory. One listing of a thousand
    /// objects covers a hundred tiles.
    async fn partials_of(
        &self,
        directory: &str,
        tiles: &BTreeSet<&str>,
    ) -> Result<Vec<Path>, AssetError> {
        let (Some(first), Some(last)) = (tiles.first(), tiles.last()) else {
            return Ok(Vec::new());
        };
        // In byte order, `0` follows `/`.
        let end = self.key(&format!("{last}.p0"))?;
        let directory_key = self.key(directory)?;
        let offset = self.key(first)?;
        let mut objects = self.store.list_with_offset(Some(&directory_key), &offset);
        let mut found = Vec::new();
        while let Some(object) = objects.next().await {
            let key = object
                .map_err(|e| self.failed("list", directory, &e))?
                .location;
            if key.as_ref() >= end.as_ref() {
                break;
            }
            let path = self.path(&key).and_then(|path| path.rsplit_once(".p/"));
            if path.is_some_and(|(tile, _)| tiles.contains(tile)) {
                found.push(key);
            }
        }
        Ok(found)
    }
}

/// Time to wait before a put is retried after a transient error.
const STUMBLE: Duration = Duration::from_millis(20);

const JOURNAL: &str = ".lucarne/journal";

fn staged_path(name: Name) -> String {
    format!("{JOURNAL}/{}", name.file())
}

fn immutable() -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(Immutable);
    extensions
}

/// Headers of objects that are not for readers.
fn private_headers() -> Attributes {
    Attributes::from_iter([
        (Attribute::ContentType, "application/octet-stream"),
        (Attribute::CacheControl, "private, no-store"),
    ])
}

/// Returns headers for a public bucket or a CDN, so that it serves the log like the log's own
/// server.
fn headers(kind: AssetKind) -> Attributes {
    let mut headers = Attributes::from_iter([
        (Attribute::ContentType, kind.content_type()),
        (Attribute::CacheControl, kind.cache_control()),
    ]);
    if let Some(encoding) = kind.content_encoding() {
        headers.insert(Attribute::ContentEncoding, encoding.into());
    }
    headers
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
        let object = PutPayload::from_iter([journal::header(&record), record]);
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

    /// Only staged objects must be deleted: published objects are durable already.
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

    async fn get_private(&self, name: &str, most: u64) -> Result<Option<Bytes>, AssetError> {
        self.read_from(&self.store, &path::private(name)?, most)
            .await
    }

    async fn headroom(&self) -> Result<Option<u64>, AssetError> {
        let most = max_file_bytes(checkpoint::PATH);
        self.read_from(&self.hasty, checkpoint::PATH, most).await?;
        Ok(None)
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn location(&self) -> String {
        self.location.clone()
    }
}
