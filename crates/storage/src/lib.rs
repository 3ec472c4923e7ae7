//! The places where a log keeps what it publishes, and what it signed last.
//!
//! Two traits, deliberately apart:
//!
//! - [`Assets`] are the public, immutable files of the static CT API, and the
//!   journal that makes a round durable before anything of it is seen.
//! - [`Lock`] holds the last signed checkpoint of each log, *outside* the
//!   assets. Its compare-and-swap is the point of no return of a round, and
//!   what stops a log that was restored from a backup from signing a fork.
//!
//! [`PosixAssets`], [`ObjectAssets`], [`SqlLock`] and [`ObjectLock`] are the ones to run; [`memory`]
//! has both for tests. Whoever adds another back end runs `conformance` (a feature) on it.
//!
//! Databases and object stores are cargo features (`sqlite`, `mysql`, `postgres`,
//! `object-stores`). A place that a build leaves out is refused with [`NotBuilt`].

mod assets;
mod blocking_pool;
mod cache;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
mod file;
pub mod guards;
mod journal_contents;
mod lease;
mod lock;
pub mod memory;
pub mod object;
#[cfg(feature = "object-stores")]
mod objectlock;
mod observe;
mod openfile;
mod path;
mod posix;
mod repairs;
pub mod secrets;
// Without any database, what is said of all of them is for nobody.
#[cfg_attr(
    not(any(feature = "sqlite", feature = "mysql", feature = "postgres")),
    expect(dead_code)
)]
mod sql;
mod stats;

pub use assets::{Asset, AssetKind, Assets, Encoding, ForReader};
pub use cache::CachedAssets;
pub use error::{AssetError, NotBuilt};
pub use file::{max_file_bytes, read_file};
pub use journal_contents::{JournalContents, StagedRecord, TornTail};
pub use lease::{HolderId, Lease, LeaseError};
pub use lock::{Lock, LockError, LogId};
pub use memory::{MemoryAssets, MemoryLock};
#[cfg(feature = "object-stores")]
pub use object::ObjectAssets;
pub use object::ObjectStoreConfig;
#[cfg(feature = "object-stores")]
pub use objectlock::ObjectLock;
pub use observe::{Observer, Operation, Outcome};
pub use openfile::OpenFile;
pub use posix::{Holder, Holders, PosixAssets, PosixRepairs, holders, make_private_directory};
pub use repairs::{Removed, Repairs};
pub use sql::{SqlLock, TesseraState};
pub use stats::Stats;
