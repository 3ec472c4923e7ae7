//! [`PosixAssets`]: a log in a directory.
//!
//! ```text
//! <localdirectory>/       public, served as it is (mode 0755)
//!   checkpoint  log.v3.json  issuer/…  tile/…
//!   .lucarne/             private (mode 0700)
//!     lock                one process at a time
//!     journal/            rounds that are durable, perhaps not yet as files
//!     index/              a snapshot of the dedup index, if one was written
//!     tmp/                files on their way; empty between calls
//! ```

mod directory_lock;
mod journal;
mod processes;
mod publisher;
mod repairs;
mod second_look;
mod segment;
mod settle;
#[cfg(test)]
mod tests;

use std::fs::{DirBuilder, File, Permissions, set_permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use self::directory_lock::DirectoryLock;
use self::journal::{Journal, open_directory};
pub use self::processes::{Holder, Holders, holders};
use self::publisher::Publisher;
pub use self::repairs::PosixRepairs;
use self::settle::Durability;
use crate::blocking_pool::{BlockingPool, NoResult};
use crate::{Asset, AssetError, Assets, ForReader, JournalContents, Repairs, Stats, file, path};

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

/// Timeout of a round's disk operations: a resetting disk controller takes that long.
const ROUND_PATIENCE: Duration = Duration::from_secs(30);
/// Timeout of a settle, which may write much data, including data of other programs.
const SETTLE_PATIENCE: Duration = Duration::from_secs(600);
/// Timeout of a reader.
const READ_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of concurrent reads.
const READERS: usize = 16;

struct Directory {
    path: PathBuf,
    /// The path as given to `open`; `path` is its resolved form at that time.
    given: PathBuf,
    publisher: Publisher,
    journal: Journal,
    durability: Durability,
    /// Held by `settle` and by a call that reopens the journal, which would otherwise remove the
    /// unused segment that `settle` prepares.
    settling: Mutex<()>,
    stats: Arc<Stats>,
    /// Whether all writes are refused.
    read_only: bool,
    /// Whether the directory was released to other processes.
    closed: AtomicBool,
    /// The last field, so that the directory is released after everything else is dropped.
    lock: Option<DirectoryLock>,
}

impl PosixAssets {
    /// Opens the directory of an existing log: a Lucarne log, Sunlight's `localdirectory` or
    /// TesseraCT's `--storage_dir`.
    ///
    /// # Errors
    ///
    /// [`AssetError::Missing`] if the directory does not exist. It is never created here, so that
    /// an unmounted disk does not look like a new log. [`AssetError::InUse`] if another process has
    /// it open.
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
            rounds: BlockingPool::new(1, ROUND_PATIENCE),
            settling: BlockingPool::new(1, SETTLE_PATIENCE),
            reading: BlockingPool::new(READERS, READ_PATIENCE),
            probing: BlockingPool::new(1, READ_PATIENCE),
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
        make_durably(&own.join("journal"), 0o700)?;
        make_durably(&path.join(publisher::TEMPORARY), 0o700)?;
        let publisher = Publisher::new(&path, Arc::new(Stats::default()))?;
        let durability = durability.unwrap_or_else(|| Durability::of(publisher.root()));
        let paths = (path, given);
        Ok(Self::of(paths, publisher, durability, Some(lock), false))
    }

    /// Returns the absolute path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory.path
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

impl Directory {
    fn writable(&self) -> Result<&Self, AssetError> {
        let error: io::Error = if self.read_only {
            io::ErrorKind::ReadOnlyFilesystem.into()
        } else if self.closed.load(Ordering::SeqCst) {
            io::Error::other("the directory was released to another process")
        } else {
            return Ok(self);
        };
        let path = self.path.display().to_string();
        Err(AssetError::io("write", path, error))
    }

    fn put_private(&self, path: &str, bytes: &[u8]) -> Result<(), AssetError> {
        let file = self.path.join(path);
        if let Some(folder) = file.parent() {
            make_durably(folder, 0o700)?;
        }
        let next = file.with_added_extension("next");
        let written = std::fs::write(&next, bytes).and_then(|()| std::fs::rename(&next, &file));
        written.map_err(|e| AssetError::io("write", file.display().to_string(), e))
    }

    fn get_private(&self, path: &str, most: u64) -> Result<Option<Bytes>, AssetError> {
        let path = self.path.join(path);
        let read = file::open(&path).and_then(|mut file| file::read_bounded(&mut file, most));
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(AssetError::io("read", path.display().to_string(), error)),
        }
    }

    fn let_go(&self) -> Result<(), AssetError> {
        let released = self.lock.as_ref().map_or(Ok(()), DirectoryLock::release);
        released.map_err(|e| AssetError::io("release", self.path.display().to_string(), e))
    }
}

#[async_trait]
impl Assets for PosixAssets {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), AssetError> {
        self.blocking(&self.rounds, move |d| {
            d.writable()?.still_there()?;
            d.publisher.recovering(false);
            d.journal.append(new_size, &record)
        })
        .await
    }

    async fn staged(&self) -> Result<Vec<Bytes>, AssetError> {
        self.blocking(&self.rounds, |d| {
            if d.read_only {
                return d.journal.look();
            }
            let _not_while_settling = d.settling.lock();
            d.still_there()?;
            d.publisher.recovering(true);
            d.publisher.forget_checkpoint();
            d.journal.open()
        })
        .await
    }

    async fn staged_now(&self) -> Result<Vec<Bytes>, AssetError> {
        // In the pool of readers, because a long journal would delay the rounds.
        let contents = self.blocking(&self.reading, |d| d.journal.contents());
        Ok(contents.await?.into_records())
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), AssetError> {
        self.blocking(&self.rounds, move |d| {
            d.writable()?.publisher.publish(&assets)
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

    async fn get_for_reader(&self, path: &str) -> Result<Option<ForReader>, AssetError> {
        let path = path.to_owned();
        self.blocking(&self.reading, move |d| d.publisher.read_for_reader(&path))
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

    async fn get_private(&self, name: &str, most: u64) -> Result<Option<Bytes>, AssetError> {
        let path = path::private(name)?;
        self.blocking(&self.reading, move |d| d.get_private(&path, most))
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

impl Directory {
    /// Fails if the path leads to a different directory than the open one, or its lock to a
    /// different file. Rounds would be written to a directory that no process finds again, and
    /// another process could start the same log a second time.
    fn still_there(&self) -> Result<(), AssetError> {
        let held = |lock: &DirectoryLock| is_same(&self.path.join(LOCK), lock.file());
        let same = is_same(&self.given, self.publisher.root())
            .and_then(|same| Ok(same && self.lock.as_ref().map_or(Ok(true), held)?));
        match same {
            Ok(true) => Ok(()),
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(AssetError::io(
                "examine",
                self.given.display().to_string(),
                e,
            )),
            _ => Err(AssetError::Moved {
                directory: self.given.display().to_string(),
            }),
        }
    }
}

/// Describes another process that has files of the log open.
fn first_holder(directory: &Path) -> Option<String> {
    let holders = holders(directory, &[]);
    holders.found.first().map(Holder::to_string)
}

/// Returns `true` if the path leads to the open file.
fn is_same(path: &Path, file: &File) -> io::Result<bool> {
    let (there, open) = (path.metadata()?, file.metadata()?);
    Ok((there.dev(), there.ino()) == (open.dev(), open.ino()))
}

/// The lock file: only one process at a time can lock it.
const LOCK: &str = ".lucarne/lock";
/// The directory for private files.
const OWN: &str = ".lucarne";

/// Removes permissions of other users that an older version or a umask left.
fn keep_private(own: &Path) {
    let open = |mode: u32| mode & 0o077 != 0;
    if !own.metadata().is_ok_and(|metadata| open(metadata.mode())) {
        return;
    }
    if let Err(error) = set_permissions(own, Permissions::from_mode(0o700)) {
        tracing::warn!(%error, "{}: other users may enter, and the mode cannot be changed", own.display());
    }
}

/// Returns the directory, which must exist, as an absolute path without links.
fn existing(path: &Path) -> Result<PathBuf, AssetError> {
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => AssetError::Missing {
            directory: path.display().to_string(),
        },
        _ => AssetError::io("open", path.display().to_string(), e),
    };
    let real = path.canonicalize().map_err(failed)?;
    if !real.is_dir() {
        let error = io::ErrorKind::NotADirectory.into();
        return Err(AssetError::io("open", real.display().to_string(), error));
    }
    Ok(real)
}

/// Creates a directory that only this user may enter. Missing parents are created, too; other users
/// may enter them unless they are in `.lucarne`.
///
/// # Errors
/// If the directory cannot be created or synced.
pub fn make_private_directory(path: &Path) -> Result<(), AssetError> {
    make_durably(path, 0o700)
}

/// Creates a directory like `mkdir -p`, syncs each new entry into its parent, and sets this mode
/// regardless of the umask. Everything in `.lucarne` is private.
pub(crate) fn make_durably(path: &Path, mode: u32) -> Result<(), AssetError> {
    if path.is_dir() {
        return Ok(());
    }
    let mode = if path.iter().any(|part| part == OWN) {
        0o700
    } else {
        mode
    };
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    make_durably(parent, 0o755)?;
    let failed = |e| AssetError::io("create the directory", path.display().to_string(), e);
    match DirBuilder::new().mode(mode).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            if !path.is_dir() {
                return Err(failed(io::ErrorKind::NotADirectory.into()));
            }
        }
        result => {
            result.map_err(failed)?;
            let made = path.metadata().map_err(failed)?.mode() & 0o777;
            if made != mode {
                set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
            }
        }
    }
    open_directory(parent)?.sync_all().map_err(failed)
}
