//! Storage of a log: its published files, its journal, and its last signed checkpoint.
//!
//! ```text
//! round → Assets::stage → Lock::replace → Assets::publish → Assets::settle
//!            journal        checkpoint      public files      synced files
//!                                                │
//!                          reader ← ReadAssets ←─┘
//! ```
//!
//! | item | contents |
//! |---|---|
//! | [`Assets`] | public files and journal: [`PosixAssets`], [`ObjectAssets`], [`MemoryAssets`] |
//! | [`Asset`], [`AssetKind`], [`Encoding`] | one public file, its kind and its encoding |
//! | [`Lock`] | last signed checkpoint of each log: [`SqlLock`], [`ObjectLock`], [`MemoryLock`] |
//! | [`Lease`], [`HolderId`] | the instance of a log that should sequence it |
//! | [`ReadAssets`], [`DiskCache`] | files for readers, and a disk cache of immutable files of an object store |
//! | [`ForReader`], [`OpenFile`] | a file for a reader, kept open for sending |
//! | [`Repairs`], [`PosixRepairs`] | replacement of damaged files while the log runs |
//! | [`JournalContents`], [`holders`] | inspection by other processes |
//! | [`read_file`], [`max_file_bytes`] | safe reading of files of a log by other processes |
//! | [`TesseraState`] | the state of a tree that TesseraCT left in a bucket |
//! | [`Observer`], [`Operation`], [`Stats`], [`StoreDate`] | requests and counters for metrics |
//! | [`object`], [`secrets`] | configuration of buckets, keys in secret managers |
//! | `posix`, `blocking_pool` | directories, and threads for work that may hang |
//! | `sql`, `objectlock` | locks in databases and in object stores |
//!
//! The two main traits are separate on purpose:
//!
//! - [`Assets`] are the public, immutable files of the static CT API, and the journal that makes a
//!   round durable before any of its files is visible.
//! - [`Lock`] holds the last signed checkpoint of each log *outside* the assets. Its
//!   compare-and-swap is the point of no return of a round. It prevents a log that was restored
//!   from a backup from signing a fork.
//!
//! A round stages its record, commits its checkpoint in the lock, and then publishes its files:
//!
//! ```
//! use lucarne_storage::{Asset, AssetKind, Assets, Lock, MemoryAssets, MemoryLock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (assets, lock, log) = (MemoryAssets::new(), MemoryLock::new(), [7; 32]);
//! lock.create(&log, b"checkpoint 0").await?;
//!
//! assets.stage(1, "record of the round".into()).await?;
//! lock.replace(&log, b"checkpoint 0", b"checkpoint 1").await?;
//! let checkpoint = Asset::new("checkpoint", "checkpoint 1", AssetKind::Checkpoint);
//! assets.publish(vec![checkpoint]).await?;
//!
//! // A process with an old checkpoint cannot commit.
//! assert!(lock.replace(&log, b"checkpoint 0", b"a fork").await.is_err());
//! # Ok(())
//! # }
//! ```
//!
//! New back ends must pass the tests of the module `conformance` (a cargo feature).
//!
//! Databases and object stores are cargo features (`sqlite`, `mysql`, `postgres`, `object-stores`).
//! Opening a location that a build does not support fails with [`NotBuilt`].

mod assets;
mod blocking_pool;
mod cache;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod file;
mod lease;
mod lock;
pub mod memory;
pub mod object;
#[cfg(feature = "object-stores")]
mod objectlock;
mod path;
mod posix;
mod read_assets;
#[cfg(feature = "object-stores")]
mod secret_managers;
pub mod secrets;
// Without a database feature, the code that all databases share is unused.
#[cfg_attr(
    not(any(feature = "sqlite", feature = "mysql", feature = "postgres")),
    expect(dead_code)
)]
mod sql;
mod stats;

pub use assets::{
    Asset, AssetKind, Assets, Encoding, JournalContents, Removed, Repairs, StagedRecord, TornTail,
};
pub use cache::DiskCache;
pub use error::{AssetError, NotBuilt};
pub use file::{max_file_bytes, read_file};
pub use lease::{HolderId, Lease, LeaseError};
pub use lock::{Lock, LockError, LogId};
pub use memory::{MemoryAssets, MemoryLock};
#[cfg(feature = "object-stores")]
pub use object::ObjectAssets;
pub use object::ObjectStoreConfig;
#[cfg(feature = "object-stores")]
pub use objectlock::ObjectLock;
pub use posix::{Holder, Holders, PosixAssets, PosixRepairs, holders, make_private_directory};
pub use read_assets::{ForReader, OpenFile, ReadAssets};
pub use sql::{SqlLock, TesseraState};
pub use stats::{Observer, Operation, Outcome, Stats, StoreDate};
