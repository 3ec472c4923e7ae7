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
//! [`Lock`](crate::Lock) protects the log: its compare-and-swap lets only one of them commit, and
//! the other stops. Neither publishes uncommitted data, staged rounds have unique names, and
//! committed data has only one form; so both processes write the same bytes.
//!
//! The checkpoint changes, and is only replaced by a process that knows its current version
//! (`checkpoint.rs`). The slower of two processes, or a put that arrives late, cannot restore an
//! old checkpoint. Two processes that do not even share a lock stop each other at the first
//! checkpoint.

#[cfg(not(feature = "object-stores"))]
mod absent;
#[cfg(feature = "object-stores")]
mod assets;
pub(crate) mod config;
#[cfg(feature = "object-stores")]
pub(crate) mod failure;
#[cfg(feature = "object-stores")]
pub(crate) mod http;
#[cfg(feature = "object-stores")]
mod journal;
#[cfg(feature = "object-stores")]
mod keys;
#[cfg(feature = "object-stores")]
mod opening;
#[cfg(feature = "object-stores")]
mod profile;
#[cfg(feature = "object-stores")]
mod requests;

#[cfg(not(feature = "object-stores"))]
use self::absent as opening;
#[cfg(feature = "object-stores")]
pub use self::assets::ObjectAssets;
pub use self::config::{Azure, Bucket, Gcs, ObjectStoreConfig, RequestPolicy, S3, S3Keys};
#[cfg(feature = "object-stores")]
pub use self::keys::{AwsKeySource, AwsKeys};
pub use self::opening::{has_conditions, journal, lock, look_into_lock, open, repairs};
use crate::AssetError;

impl ObjectStoreConfig {
    /// Checks the configuration as far as possible without a request.
    ///
    /// # Errors
    ///
    /// [`AssetError::Configuration`], or [`AssetError::NotBuilt`].
    pub fn validate(&self) -> Result<(), AssetError> {
        self.check_prefix()?;
        opening::check(self)
    }
}
