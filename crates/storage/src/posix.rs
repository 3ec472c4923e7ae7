//! [`PosixAssets`]: a log in a directory.
//!
//! ```text
//! <localdirectory>/       public, served as it is (mode 0755)
//!   checkpoint  log.v3.json  issuer/…  tile/…
//!   .lucarne/             private (mode 0700)
//!     lock                one process at a time
//!     journal/            rounds that are durable, perhaps not yet as files
//!     index/              a snapshot of the dedup index, if one was written
//!     tmp/                files that are being written; empty between calls
//! ```

mod active;
mod directory;
mod journal;
mod processes;
mod publisher;
mod repairs;
mod segment;
mod settle;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

pub(crate) use self::directory::make_durably;
pub use self::directory::make_private_directory;
use self::directory::{
    Directory, DirectoryLock, OWN, existing, keep_private, make_own_directories,
};
use self::journal::{Damage, Journal};
pub use self::processes::{Holder, Holders, holders};
use self::publisher::Publisher;
pub use self::repairs::PosixRepairs;
use self::settle::Durability;
use crate::blocking_pool::{BlockingPool, NoResult};
use crate::{Asset, AssetError, Assets, JournalContents, OpenFile, Repairs, Stats, path};

/// Assets in a directory of a POSIX file system. Another process cannot open the directory during
/// the lifetime of this value.
///
/// # Examples
///
/// ```
/// use lucarne_storage::{Asset, AssetKind, Assets, PosixAssets};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let directory = tempfile::tempdir()?;
/// let assets = PosixAssets::create(directory.path().join("log"))?;
/// assert!(assets.staged().await?.is_empty());
/// let checkpoint = Asset::new("checkpoint", "a checkpoint", AssetKind::Checkpoint);
/// assets.publish(vec![checkpoint]).await?;
/// assert_eq!(assets.get("checkpoint").await?.as_deref(), Some(&b"a checkpoint"[..]));
///
/// // A log in use cannot be opened a second time.
/// assert!(PosixAssets::open(directory.path().join("log")).is_err());
/// # Ok(())
/// # }
/// ```
pub struct PosixAssets {
    directory: Arc<Directory>,
    /// Thread for the rounds, which run one operation at a time.
    rounds: BlockingPool,
    /// Thread for settling, concurrent with the rounds.
    settling: BlockingPool,
    reading: BlockingPool,
    probing: BlockingPool,
}

/// Timeout of a round's disk operations. A reset of a disk controller can take this long.
const ROUND_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a settle, which may write much data, including data of other programs.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Timeout of a reader.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent reads.
const READERS: usize = 16;

impl PosixAssets {
    /// Opens the directory of an existing log: a Lucarne log, Sunlight's `localdirectory` or
    /// TesseraCT's `--storage_dir`.
    ///
    /// # Errors
    ///
    /// [`AssetError::Missing`] if the directory does not exist. This function never creates the
    /// directory, so that an unmounted disk does not look like a new log. [`AssetError::InUse`] if
    /// another process has the directory open.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, AssetError> {
        Self::open_with(directory.as_ref(), None)
    }

    /// Opens the directory of an existing log for reading only. Nothing in it is created, removed
    /// or written; methods that write return an error.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub fn examine(directory: impl AsRef<Path>) -> Result<Self, AssetError> {
        let given = directory.as_ref().to_owned();
        let path = existing(&given)?;
        let lock = DirectoryLock::look(&path)?;
        Self::read_only((path, given), lock)
    }

    /// Opens the directory of an existing log for reading while another process has it open.
    /// Nothing in it is created, locked or written; methods that write return an error.
    ///
    /// # Errors
    ///
    /// [`AssetError::Missing`] if the directory does not exist.
    pub fn watch(directory: impl AsRef<Path>) -> Result<Self, AssetError> {
        let given = directory.as_ref().to_owned();
        let path = existing(&given)?;
        Self::read_only((path, given), None)
    }

    fn read_only(
        paths: (PathBuf, PathBuf),
        lock: Option<DirectoryLock>,
    ) -> Result<Self, AssetError> {
        let publisher = Publisher::look(&paths.0, Arc::new(Stats::default()))?;
        let durability = Durability::of(publisher.root());
        Ok(Self::of(paths, publisher, durability, lock, true))
    }

    /// Returns the content of the journal with the position of each record. Changes no file, and
    /// tolerates a process that appends or truncates at the same time.
    ///
    /// # Errors
    ///
    /// If the files cannot be read. Damage is part of the result.
    pub async fn journal(&self) -> Result<JournalContents, AssetError> {
        self.blocking(&self.rounds, |d| d.journal.contents()).await
    }

    fn of(
        (path, given): (PathBuf, PathBuf),
        publisher: Publisher,
        durability: Durability,
        lock: Option<DirectoryLock>,
        read_only: bool,
    ) -> Self {
        let stats = publisher.stats().clone();
        let journal = Journal::new(path.join(".lucarne/journal"), stats.clone());
        let directory = Directory {
            publisher,
            journal,
            durability,
            settling: Mutex::new(()),
            stats,
            path,
            given,
            read_only,
            closed: AtomicBool::new(false),
            lock,
        };
        Self {
            directory: Arc::new(directory),
            rounds: BlockingPool::new(1, ROUND_TIMEOUT),
            settling: BlockingPool::new(1, SETTLE_TIMEOUT),
            reading: BlockingPool::new(READERS, READ_TIMEOUT),
            probing: BlockingPool::new(1, READ_TIMEOUT),
        }
    }

    /// Creates the directory if it does not exist, and opens it.
    pub fn create(directory: impl AsRef<Path>) -> Result<Self, AssetError> {
        make_durably(directory.as_ref(), 0o755)?;
        Self::open(directory)
    }

    /// Opens a directory. Without `durability`, the kind that fits the file system is used.
    fn open_with(path: &Path, durability: Option<Durability>) -> Result<Self, AssetError> {
        let given = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let path = existing(path)?;
        let own = path.join(OWN);
        make_durably(&own, 0o700)?;
        keep_private(&own);
        let lock = DirectoryLock::take(&path)?;
        make_own_directories(&path)?;
        let publisher = Publisher::new(&path, Arc::new(Stats::default()))?;
        let durability = durability.unwrap_or_else(|| Durability::of(publisher.root()));
        let paths = (path, given);
        Ok(Self::of(paths, publisher, durability, Some(lock), false))
    }

    /// Returns the absolute path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory.path
    }

    async fn open_journal(&self, damage: Damage) -> Result<Vec<Bytes>, AssetError> {
        self.blocking(&self.rounds, move |d| {
            if d.read_only {
                return d.journal.look(damage);
            }
            let _not_while_settling = d.settling.lock();
            d.still_there()?;
            make_own_directories(&d.path)?;
            d.publisher.recovering(true);
            d.publisher.forget_checkpoint();
            d.journal.open(damage)
        })
        .await
    }

    /// Runs file operations on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        pool: &BlockingPool,
        work: impl FnOnce(&Directory) -> Result<T, AssetError> + Send + 'static,
    ) -> Result<T, AssetError> {
        let directory = self.directory.clone();
        match pool.run(move || work(&directory)).await {
            Ok(result) => result,
            Err(NoResult::Silent) => Err(AssetError::Silent {
                directory: self.location(),
            }),
            Err(NoResult::Panicked(e)) => {
                Err(AssetError::io("finish work on", self.location(), e.into()))
            }
        }
    }
}

#[async_trait]
impl Assets for PosixAssets {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError> {
        self.blocking(&self.rounds, move |d| {
            d.writable()?.still_there()?;
            d.publisher.recovering(false);
            d.journal.append(new_size, &record)?;
            d.publisher.confirm_checkpoint()
        })
        .await
    }

    async fn staged(&self) -> Result<Vec<Bytes>, AssetError> {
        self.open_journal(Damage::Refused).await
    }

    async fn staged_beyond(&self, _size: u64) -> Result<Vec<Bytes>, AssetError> {
        self.open_journal(Damage::Skipped).await
    }

    async fn staged_now(&self) -> Result<Vec<Bytes>, AssetError> {
        // This work runs in the pool of readers, because reading a long journal would delay the
        // rounds.
        let contents = self.blocking(&self.reading, |d| d.journal.contents());
        Ok(contents.await?.into_records())
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError> {
        self.blocking(&self.rounds, move |d| {
            d.writable()?.publisher.publish(&assets)
        })
        .await
    }

    async fn amend_checkpoint(&self, old: &Bytes, new: Bytes) -> Result<bool, AssetError> {
        let old = old.clone();
        // The pool has one thread: the comparison and the write are one step for the rounds.
        self.blocking(&self.rounds, move |d| {
            d.writable()?.publisher.amend_checkpoint(&old, new)
        })
        .await
    }

    async fn confirm_published(&self) -> Result<(), AssetError> {
        self.blocking(&self.rounds, |d| {
            d.still_there()?;
            d.publisher.confirm_checkpoint()
        })
        .await
    }

    fn others(&self) -> Option<String> {
        first_holder(&self.directory.path)
    }

    async fn settle(&self, size: u64) -> Result<(), AssetError> {
        self.blocking(&self.settling, move |d| d.writable()?.settle(size))
            .await
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>, AssetError> {
        let path = path.to_owned();
        self.blocking(&self.reading, move |d| d.publisher.read(&path))
            .await
    }

    async fn get_open(&self, path: &str) -> Result<Option<(Bytes, Option<OpenFile>)>, AssetError> {
        let path = path.to_owned();
        self.blocking(&self.reading, move |d| d.publisher.read_open(&path))
            .await
    }

    async fn remove_partials(&self, tiles: &[String]) -> Result<(), AssetError> {
        let tiles = tiles.to_vec();
        self.blocking(&self.settling, move |d| {
            d.writable()?;
            tiles
                .iter()
                .try_for_each(|tile| d.publisher.remove_partials(tile))
        })
        .await
    }

    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, AssetError> {
        let tile = tile_path.to_owned();
        self.blocking(&self.reading, move |d| d.publisher.partials(&tile))
            .await
    }

    async fn beside(&self, tile_path: &str) -> Result<Option<Vec<String>>, AssetError> {
        let tile = tile_path.to_owned();
        self.blocking(&self.reading, move |d| d.publisher.beside(&tile).map(Some))
            .await
    }

    fn keeps_private(&self) -> bool {
        true
    }

    async fn put_private(&self, name: &str, bytes: Bytes) -> Result<(), AssetError> {
        let path = path::private(name)?;
        self.blocking(&self.settling, move |d| {
            d.writable()?.put_private(&path, &bytes)
        })
        .await
    }

    async fn get_private(&self, name: &str, max: u64) -> Result<Option<Bytes>, AssetError> {
        let path = path::private(name)?;
        self.blocking(&self.reading, move |d| d.get_private(&path, max))
            .await
    }

    async fn headroom(&self) -> Result<Option<u64>, AssetError> {
        self.blocking(&self.probing, |d| {
            d.still_there()?;
            let status = rustix::fs::fstatvfs(d.publisher.root())
                .map_err(|e| AssetError::io("examine", d.path.display().to_string(), e.into()))?;
            Ok(Some(status.f_bavail.saturating_mul(status.f_frsize)))
        })
        .await
    }

    async fn close(&self) -> Result<(), AssetError> {
        // These jobs run in the pools that write, after all earlier jobs, including abandoned ones.
        let closed = |d: &Directory| {
            d.closed.store(true, Ordering::SeqCst);
            Ok(())
        };
        self.blocking(&self.settling, closed).await?;
        self.blocking(&self.rounds, Directory::let_go).await
    }

    fn stats(&self) -> &Stats {
        &self.directory.stats
    }

    fn location(&self) -> String {
        self.directory.path.display().to_string()
    }
}

#[async_trait]
impl Repairs for PosixAssets {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        self.blocking(&self.rounds, move |d| {
            d.writable()?.still_there()?;
            PosixRepairs::of(&d.path).put(&asset)
        })
        .await
    }
}

/// Describes another process that has files of the log open.
fn first_holder(directory: &Path) -> Option<String> {
    let holders = holders(directory, &[]);
    holders.found.first().map(Holder::to_string)
}
