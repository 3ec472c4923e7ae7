//! Functions that open the buckets of a configuration.

use std::sync::Arc;

use super::{ObjectAssets, ObjectStoreConfig};
use crate::{AssetError, Assets, JournalContents, Lock, LockError, ObjectLock, Observer, Repairs};

/// Opens the data of a log.
///
/// # Errors
///
/// The errors of [`ObjectAssets::open_observed`]; [`AssetError::NotBuilt`] in a build without the
/// feature `object-stores`.
pub async fn open(
    config: &ObjectStoreConfig,
    observer: Arc<dyn Observer>,
) -> Result<Arc<dyn Assets>, AssetError> {
    let assets = ObjectAssets::open_observed(config, observer).await?;
    Ok(Arc::new(assets))
}

/// Opens the lock of a log.
///
/// # Errors
///
/// The errors of [`ObjectLock::connect_observed`]; [`LockError::Unusable`] in a build without the
/// feature `object-stores`.
pub async fn lock(
    config: &ObjectStoreConfig,
    observer: Arc<dyn Observer>,
) -> Result<Arc<dyn Lock>, LockError> {
    let lock = ObjectLock::connect_observed(config, observer).await?;
    Ok(Arc::new(lock))
}

/// Opens a lock for reading. Writes nothing, so the function does not test whether the store can
/// hold a lock.
///
/// # Errors
///
/// The errors of [`ObjectLock::look`]; [`LockError::Unusable`] in a build without the feature
/// `object-stores`.
pub fn look_into_lock(config: &ObjectStoreConfig) -> Result<Arc<dyn Lock>, LockError> {
    Ok(Arc::new(ObjectLock::look(config)?))
}

/// Returns the content of a log's journal with the position of each record.
///
/// # Errors
///
/// The errors of [`ObjectAssets::journal`]; [`AssetError::NotBuilt`] in a build without the feature
/// `object-stores`.
pub async fn journal(config: &ObjectStoreConfig) -> Result<JournalContents, AssetError> {
    ObjectAssets::open(config).await?.journal().await
}

/// Opens the data of a log to repair damaged objects.
///
/// # Errors
///
/// The errors of [`ObjectAssets::open`]; [`AssetError::NotBuilt`] in a build without the feature
/// `object-stores`.
pub async fn repairs(config: &ObjectStoreConfig) -> Result<Arc<dyn Repairs>, AssetError> {
    Ok(Arc::new(ObjectAssets::open(config).await?))
}

/// Tests with one put that must fail whether the bucket is writable and supports conditional puts.
/// If the store ignores the condition, an empty object exists for a moment.
///
/// # Errors
///
/// The errors of [`ObjectAssets::open`], and an error if the bucket is not writable.
pub async fn has_conditions(config: &ObjectStoreConfig) -> Result<bool, AssetError> {
    ObjectAssets::open(config).await?.has_conditions().await
}

/// Checks the configuration of a bucket as far as possible without a request.
pub(super) fn check(config: &ObjectStoreConfig) -> Result<(), AssetError> {
    config.connect(Arc::default()).map(drop)
}
