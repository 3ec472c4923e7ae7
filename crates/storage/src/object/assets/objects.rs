//! Requests for objects of a log, and their headers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ::http::Extensions;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, ObjectStore, PutMode, PutOptions, PutPayload, PutResult,
};

use super::ObjectAssets;
use crate::file::{check_length, max_file_bytes};
use crate::object::failure;
use crate::object::http::{Immutable, Tries};
use crate::{Asset, AssetError, AssetKind};

/// Time to wait before a put is retried after a transient error.
const STUMBLE: Duration = Duration::from_millis(20);

impl ObjectAssets {
    pub(super) async fn put(&self, asset: Asset) -> Result<(), AssetError> {
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

    pub(super) async fn write(
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
    pub(super) async fn try_write(
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
            let response = put.await;
            let Err(error) = &response else {
                return Ok(response);
            };
            let decided = conditional && failure::is_lost(error);
            if decided || !failure::is_passing(error) || tries_left == 0 {
                return Ok(response);
            }
            tries_left -= 1;
            // The concurrent work of the store ends within milliseconds and cannot be awaited.
            tokio::time::sleep(STUMBLE).await;
        }
    }

    /// Returns the stored bytes of an object.
    pub(super) async fn read(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        self.read_from(&self.store, path, max_file_bytes(path))
            .await
    }

    /// Returns the stored bytes of an object of at most `max` bytes.
    pub(super) async fn read_from(
        &self,
        store: &Arc<dyn ObjectStore>,
        path: &str,
        max: u64,
    ) -> Result<Option<Bytes>, AssetError> {
        let key = self.key(path)?;
        let mut options = GetOptions::default();
        options.extensions.insert(Tries::default());
        let found = store.get_opts(&key, options).await;
        if let Ok(found) = &found
            && let Err(unfit) = check_length(found.meta.size, max)
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

    /// Deletes objects in batches as large as the store allows (S3: 1,000), and calls `gone` for
    /// each deleted object.
    pub(super) async fn delete(
        &self,
        keys: Vec<Path>,
        mut gone: impl FnMut(&Path),
    ) -> Result<(), AssetError> {
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
    pub(super) async fn partials_of(
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

pub(super) fn immutable() -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(Immutable);
    extensions
}

/// Headers of objects that are not for readers.
pub(super) fn private_headers() -> Attributes {
    Attributes::from_iter([
        (Attribute::ContentType, "application/octet-stream"),
        (Attribute::CacheControl, "private, no-store"),
    ])
}

/// Returns headers for a public bucket or a CDN, so that it serves the log like the log's own
/// server.
pub(super) fn headers(kind: AssetKind) -> Attributes {
    let mut headers = Attributes::from_iter([
        (Attribute::ContentType, kind.content_type()),
        (Attribute::CacheControl, kind.cache_control()),
    ]);
    if let Some(encoding) = kind.content_encoding() {
        headers.insert(Attribute::ContentEncoding, encoding.into());
    }
    headers
}
