//! [`ObjectAssets`]: a log in a bucket.
//!
//! ```text
//! <prefix>               public, served as it is by a public bucket or a CDN
//!   checkpoint  log.v3.json  issuer/…  tile/…
//! <prefix>.lucarne/      ours; nothing there is secret, and nothing of use
//!   journal/…            rounds that are durable, perhaps not yet as files
//! ```
//!
//! A put that was answered is durable and seen by every reader: that is what
//! these stores promise, and all that is asked of one, listings included.
//! (Eventually consistent stores, of which few are left, are not fit.)
//!
//! # One process per log
//!
//! A bucket cannot be locked as a directory can: two processes may open the
//! same prefix. The fence is the [`Lock`](crate::Lock): its compare-and-swap
//! lets only one of them commit, and the other stops. Neither publishes
//! anything that is not committed, rounds have names of their own, and what is
//! committed has but one form; so whatever both write, they write alike. The
//! checkpoint, which changes, is only replaced by who knows it (`checkpoint.rs`):
//! the slower of two processes cannot put back what the faster has replaced,
//! nor can a put that was given up and arrives late; and two processes that do
//! not even share a lock stop each other at the first checkpoint.

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
