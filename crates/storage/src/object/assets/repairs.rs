//! Repair of objects while the log's process serves them.

use async_trait::async_trait;
use bytes::Bytes;
use object_store::PutOptions;

use super::{ObjectAssets, headers, immutable, staged_path};
use crate::object::journal::Name;
use crate::repairs::KEPT;
use crate::{Asset, AssetError, Removed, Repairs, path};

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

impl ObjectAssets {
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
