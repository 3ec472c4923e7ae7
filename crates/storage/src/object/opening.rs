//! Buckets, as whoever reads a configuration opens them.

use std::sync::Arc;

use super::{ObjectAssets, ObjectStoreConfig};
use crate::{AssetError, Assets, JournalContents, Lock, LockError, ObjectLock, Observer, Repairs};

/// Opens the data of a log.
///
/// # Errors
///
/// As [`ObjectAssets::open_observed`]; [`AssetError::NotBuilt`] in a build without
/// the feature `object-stores`.
pub async fn open(
    config: &ObjectStoreConfig,
    observer: Arc<dyn Observer>,
) -> Result<Arc<dyn Assets>, AssetError> {
    let assets = ObjectAssets::open_observed(config, observer).await?;
    Ok(Arc::new(assets))
}

/// Opens a lock.
///
/// # Errors
///
/// As [`ObjectLock::connect_observed`]; [`LockError::Unusable`] in a build
/// without the feature `object-stores`.
pub async fn lock(
    config: &ObjectStoreConfig,
    observer: Arc<dyn Observer>,
) -> Result<Arc<dyn Lock>, LockError> {
    let lock = ObjectLock::connect_observed(config, observer).await?;
    Ok(Arc::new(lock))
}

/// Opens a lock to look into it: nothing is put there, and so nothing is found
/// out about the store.
///
/// # Errors
///
/// As [`ObjectLock::look`]; [`LockError::Unusable`] in a build without the
/// feature `object-stores`.
pub fn look_into_lock(config: &ObjectStoreConfig) -> Result<Arc<dyn Lock>, LockError> {
    Ok(Arc::new(ObjectLock::look(config)?))
}

/// Returns what the journal of a log has, and where.
///
/// # Errors
///
/// As [`ObjectAssets::journal`]; [`AssetError::NotBuilt`] in a build without the
/// feature `object-stores`.
pub async fn journal(config: &ObjectStoreConfig) -> Result<JournalContents, AssetError> {
    ObjectAssets::open(config).await?.journal().await
}

/// Opens the data of a log to put damaged objects right.
///
/// # Errors
///
/// As [`ObjectAssets::open`]; [`AssetError::NotBuilt`] in a build without the
/// feature `object-stores`.
pub async fn repairs(config: &ObjectStoreConfig) -> Result<Arc<dyn Repairs>, AssetError> {
    Ok(Arc::new(ObjectAssets::open(config).await?))
}

/// Asks whether the bucket may be written and holds puts to conditions, by one that
/// must fail. Where it is not held to that, an empty object is there for a moment.
///
/// # Errors
///
/// As [`ObjectAssets::open`], and if it may not be written.
pub async fn has_conditions(config: &ObjectStoreConfig) -> Result<bool, AssetError> {
    ObjectAssets::open(config).await?.has_conditions().await
}

/// Checks whether it could be a bucket, as far as that can be told without asking it.
pub(super) fn check(config: &ObjectStoreConfig) -> Result<(), AssetError> {
    config.connect(Arc::default()).map(drop)
}
