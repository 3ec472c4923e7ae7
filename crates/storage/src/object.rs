//! [`ObjectAssets`]: a log in a bucket.
//!
//! ```text
//! <prefix>               public, served as it is by a public bucket or a CDN
//!   checkpoint  log.v3.json  issuer/…  tile/…
//! <prefix>.lucarne/      for the log only, without secrets
//!   journal/…            rounds that are durable, perhaps not yet as files
//! ```
//!
//! A successful put is durable and visible to every reader, including listings. Lucarne requires no
//! other guarantee from a store. Eventually consistent stores are not supported.
//!
//! # One process per log
//!
//! A bucket cannot be locked like a directory: two processes may open the same prefix. The
//! [`Lock`] protects the log: its compare-and-swap lets only one of them commit, and the other
//! stops. Neither publishes uncommitted data, staged rounds have unique names, and committed data
//! has only one form; so both processes write the same bytes.
//!
//! The checkpoint changes, and is only replaced by a process that knows its current version
//! (`checkpoint.rs`). The slower of two processes, or a put that arrives late, cannot restore an
//! old checkpoint. Two processes that do not even share a lock stop each other at the first
//! checkpoint.

#[cfg(feature = "object-stores")]
mod assets;
pub(crate) mod config;
#[cfg(feature = "object-stores")]
pub(crate) mod connect;
#[cfg(feature = "object-stores")]
mod credentials;
#[cfg(feature = "object-stores")]
pub(crate) mod failure;
#[cfg(feature = "object-stores")]
pub(crate) mod http;

use std::sync::Arc;

#[cfg(feature = "object-stores")]
pub use self::assets::ObjectAssets;
pub use self::config::{Azure, Bucket, Gcs, ObjectStoreConfig, RequestPolicy, S3, S3Keys};
#[cfg(feature = "object-stores")]
pub use self::credentials::{AwsKeySource, AwsKeys};
#[cfg(not(feature = "object-stores"))]
use crate::NotBuilt;
#[cfg(feature = "object-stores")]
use crate::ObjectLock;
use crate::{AssetError, Assets, JournalContents, Lock, LockError, Observer, Repairs};

impl ObjectStoreConfig {
    /// Checks the configuration as far as possible without a request.
    ///
    /// # Errors
    ///
    /// [`AssetError::Configuration`], or [`AssetError::NotBuilt`].
    pub fn validate(&self) -> Result<(), AssetError> {
        self.check_prefix()?;
        #[cfg(feature = "object-stores")]
        {
            self.connect(Arc::default()).map(drop)
        }
        #[cfg(not(feature = "object-stores"))]
        {
            Err(self.left_out().into())
        }
    }
}

/// Opens the data of a log.
///
/// # Errors
///
/// The errors of `ObjectAssets::open_observed`; [`AssetError::NotBuilt`] in a build without the
/// feature `object-stores`.
pub async fn open(
    config: &ObjectStoreConfig,
    observer: Arc<dyn Observer>,
) -> Result<Arc<dyn Assets>, AssetError> {
    #[cfg(feature = "object-stores")]
    {
        let assets = ObjectAssets::open_observed(config, observer).await?;
        Ok(Arc::new(assets))
    }
    #[cfg(not(feature = "object-stores"))]
    {
        let _ = observer;
        Err(config.left_out().into())
    }
}

/// Opens the lock of a log.
///
/// # Errors
///
/// The errors of `ObjectLock::connect_observed`; [`LockError::Unusable`] in a build without the
/// feature `object-stores`.
pub async fn lock(
    config: &ObjectStoreConfig,
    observer: Arc<dyn Observer>,
) -> Result<Arc<dyn Lock>, LockError> {
    #[cfg(feature = "object-stores")]
    {
        let lock = ObjectLock::connect_observed(config, observer).await?;
        Ok(Arc::new(lock))
    }
    #[cfg(not(feature = "object-stores"))]
    {
        let _ = observer;
        Err(config.no_lock())
    }
}

/// Opens a lock for reading. Writes nothing, so the function does not test whether the store can
/// hold a lock.
///
/// # Errors
///
/// The errors of `ObjectLock::look`; [`LockError::Unusable`] in a build without the feature
/// `object-stores`.
pub fn look_into_lock(config: &ObjectStoreConfig) -> Result<Arc<dyn Lock>, LockError> {
    #[cfg(feature = "object-stores")]
    {
        Ok(Arc::new(ObjectLock::look(config)?))
    }
    #[cfg(not(feature = "object-stores"))]
    {
        Err(config.no_lock())
    }
}

/// Returns the content of a log's journal with the position of each record.
///
/// # Errors
///
/// The errors of `ObjectAssets::journal`; [`AssetError::NotBuilt`] in a build without the feature
/// `object-stores`.
pub async fn journal(config: &ObjectStoreConfig) -> Result<JournalContents, AssetError> {
    #[cfg(feature = "object-stores")]
    {
        ObjectAssets::open(config).await?.journal().await
    }
    #[cfg(not(feature = "object-stores"))]
    {
        Err(config.left_out().into())
    }
}

/// Opens the data of a log to repair damaged objects.
///
/// # Errors
///
/// The errors of `ObjectAssets::open`; [`AssetError::NotBuilt`] in a build without the feature
/// `object-stores`.
pub async fn repairs(config: &ObjectStoreConfig) -> Result<Arc<dyn Repairs>, AssetError> {
    #[cfg(feature = "object-stores")]
    {
        Ok(Arc::new(ObjectAssets::open(config).await?))
    }
    #[cfg(not(feature = "object-stores"))]
    {
        Err(config.left_out().into())
    }
}

/// Tests with one put that must fail whether the bucket is writable and supports conditional puts.
/// If the store ignores the condition, an empty object exists for a moment.
///
/// # Errors
///
/// The errors of `ObjectAssets::open`, and an error if the bucket is not writable;
/// [`AssetError::NotBuilt`] in a build without the feature `object-stores`.
pub async fn has_conditions(config: &ObjectStoreConfig) -> Result<bool, AssetError> {
    #[cfg(feature = "object-stores")]
    {
        ObjectAssets::open(config).await?.has_conditions().await
    }
    #[cfg(not(feature = "object-stores"))]
    {
        Err(config.left_out().into())
    }
}

/// The errors of a build without the feature `object-stores`.
#[cfg(not(feature = "object-stores"))]
impl ObjectStoreConfig {
    fn left_out(&self) -> NotBuilt {
        let what = match self.bucket {
            Bucket::S3(_) => "S3",
            Bucket::Gcs(_) => "Google Cloud Storage",
            Bucket::Azure(_) => "Azure Blob Storage",
        };
        NotBuilt {
            what,
            feature: "object-stores",
        }
    }

    fn no_lock(&self) -> LockError {
        LockError::Unusable {
            location: self.location(),
            reason: self.left_out().to_string(),
        }
    }
}
