//! Repair of objects while the log's process serves them.

use async_trait::async_trait;
use bytes::Bytes;
use object_store::PutOptions;

use super::{ObjectAssets, headers, immutable, staged_path};
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

    async fn remove_damaged_rounds(&self, size: u64) -> Result<Vec<Removed>, AssetError> {
        let mut removed = Vec::new();
        let names = self.list_journal().await?;
        for name in names.into_iter().filter(|name| name.new_size <= size) {
            let damage = self.read_staged(name).await;
            let (Err(AssetError::Damaged { file, .. }), path) = (damage, staged_path(name)) else {
                continue;
            };
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
    /// Keeps these bytes under the first free number.
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
