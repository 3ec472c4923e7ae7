//! The replacement for buckets in a build without the feature `object-stores`.

use std::sync::Arc;

use super::{Bucket, ObjectStoreConfig};
use crate::{AssetError, Assets, JournalContents, Lock, LockError, NotBuilt, Observer, Repairs};

/// Fails, because this build has no object stores.
///
/// # Errors
///
/// [`AssetError::NotBuilt`].
pub async fn open(
    config: &ObjectStoreConfig,
    _observer: Arc<dyn Observer>,
) -> Result<Arc<dyn Assets>, AssetError> {
    Err(left_out(config).into())
}

/// Fails, because this build has no object stores.
///
/// # Errors
///
/// [`LockError::Unusable`].
pub async fn lock(
    config: &ObjectStoreConfig,
    _observer: Arc<dyn Observer>,
) -> Result<Arc<dyn Lock>, LockError> {
    Err(LockError::Unusable {
        location: config.location(),
        reason: left_out(config).to_string(),
    })
}

/// Fails, because this build has no object stores.
///
/// # Errors
///
/// [`LockError::Unusable`].
pub fn look_into_lock(config: &ObjectStoreConfig) -> Result<Arc<dyn Lock>, LockError> {
    Err(LockError::Unusable {
        location: config.location(),
        reason: left_out(config).to_string(),
    })
}

/// Fails, because this build has no object stores.
///
/// # Errors
///
/// [`AssetError::NotBuilt`].
pub async fn journal(config: &ObjectStoreConfig) -> Result<JournalContents, AssetError> {
    Err(left_out(config).into())
}

/// Fails, because this build has no object stores.
///
/// # Errors
///
/// [`AssetError::NotBuilt`].
pub async fn repairs(config: &ObjectStoreConfig) -> Result<Arc<dyn Repairs>, AssetError> {
    Err(left_out(config).into())
}

/// Fails, because this build has no object stores.
///
/// # Errors
///
/// [`AssetError::NotBuilt`].
pub async fn has_conditions(config: &ObjectStoreConfig) -> Result<bool, AssetError> {
    Err(left_out(config).into())
}

pub(super) fn check(config: &ObjectStoreConfig) -> Result<(), AssetError> {
    Err(left_out(config).into())
}

fn left_out(config: &ObjectStoreConfig) -> NotBuilt {
    let what = match config.bucket {
        Bucket::S3(_) => "S3",
        Bucket::Gcs(_) => "Google Cloud Storage",
        Bucket::Azure(_) => "Azure Blob Storage",
    };
    NotBuilt {
        what,
        feature: "object-stores",
    }
}
