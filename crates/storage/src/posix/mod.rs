//! [`PosixAssets`]: a log in a directory.
//!
//! ```text
//! <localdirectory>/       public, served as it is (mode 0755)
//!   checkpoint  log.v3.json  issuer/…  tile/…
//!   .lucarne/             ours (mode 0700)
//!     lock                one process at a time
//!     journal/            rounds that are durable, perhaps not yet as files
//!     tmp/                files on their way; empty between calls
//! ```

mod guard;
mod journal;
mod publisher;
mod segment;
mod settle;
#[cfg(test)]
mod tests;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use self::guard::Guard;
use self::journal::{Journal, open_directory};
use self::publisher::Publisher;
use self::settle::Durability;
use crate::{Asset, Assets, Error, ForReader, Stats};

/// Assets in a directory of a POSIX file system. While it lives, no other
/// process can open the directory.
pub struct PosixAssets {
    directory: Arc<Directory>,
}

struct Directory {
    path: PathBuf,
    publisher: Publisher,
    journal: Journal,
    durability: Durability,
    /// Held by `settle` and by whoever reopens the journal: the segment that
    /// `settle` prepares must not be swept away as unused.
    settling: Mutex<()>,
    stats: Arc<Stats>,
    /// Last, so that the directory is let go of after all else.
    _guard: Guard,
}

impl PosixAssets {
    /// Opens the directory of an existing log: one of ours, Sunlight's
    /// `localdirectory` or TesseraCT's `--storage_dir`.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if there is none (it is never made here, so that a
    /// disk that was not mounted does not look like a new log),
    /// [`Error::InUse`] if a process has it open.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(directory.as_ref(), None)
    }

    /// Makes the directory where it does not exist, and opens it.
    pub fn create(directory: impl AsRef<Path>) -> Result<Self, Error> {
        make_durably(directory.as_ref(), 0o755)?;
        Self::open(directory)
    }

    /// `durability`: the one that fits the file system, unless a test wants one.
    fn open_with(path: &Path, durability: Option<Durability>) -> Result<Self, Error> {
        let path = path.canonicalize().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::Missing {
                directory: path.display().to_string(),
            },
            _ => Error::io("open", path.display().to_string(), e),
        })?;
        if !path.is_dir() {
            let error = io::ErrorKind::NotADirectory.into();
            return Err(Error::io("open", path.display().to_string(), error));
        }
        let own = path.join(".lucarne");
        make_durably(&own, 0o700)?;
        let guard = Guard::take(&path, &own)?;
        make_durably(&own.join("journal"), 0o700)?;
        make_durably(&path.join(publisher::TEMPORARY), 0o700)?;
        let stats = Arc::new(Stats::default());
        let publisher = Publisher::new(&path, stats.clone())?;
        let directory = Directory {
            durability: durability.unwrap_or_else(|| Durability::of(publisher.root())),
            publisher,
            journal: Journal::new(own.join("journal"), stats.clone()),
            settling: Mutex::new(()),
            stats,
            path,
            _guard: guard,
        };
        Ok(Self {
            directory: Arc::new(directory),
        })
    }

    /// The directory, as an absolute path.
    pub fn directory(&self) -> &Path {
        &self.directory.path
    }

    /// Runs file operations where they may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Directory) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let directory = self.directory.clone();
        match tokio::task::spawn_blocking(move || work(&directory)).await {
            Ok(result) => result,
            Err(e) => Err(Error::io("finish work on", self.location(), e.into())),
        }
    }
}

#[async_trait]
impl Assets for PosixAssets {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), Error> {
        self.blocking(move |d| {
            d.publisher.recovering(false);
            d.journal.append(new_size, &record)
        })
        .await
    }

    async fn staged(&self) -> Result<Vec<Bytes>, Error> {
        self.blocking(|d| {
            let _not_while_settling = d.settling.lock();
            d.publisher.recovering(true);
            d.journal.open()
        })
        .await
    }

    async fn publish(&self, assets: Vec<Asset>) -> Result<(), Error> {
        self.blocking(move |d| d.publisher.publish(&assets)).await
    }

    async fn settle(&self, size: u64) -> Result<(), Error> {
        self.blocking(move |d| d.settle(size)).await
    }

    async fn get(&self, path: &str) -> Result<Option<Bytes>, Error> {
        let path = path.to_owned();
        self.blocking(move |d| d.publisher.read(&path)).await
    }

    async fn get_for_reader(&self, path: &str) -> Result<Option<ForReader>, Error> {
        let path = path.to_owned();
        self.blocking(move |d| d.publisher.read_for_reader(&path))
            .await
    }

    async fn remove_partials(&self, tiles: &[String]) -> Result<(), Error> {
        let tiles = tiles.to_vec();
        self.blocking(move |d| {
            tiles
                .iter()
                .try_for_each(|tile| d.publisher.remove_partials(tile))
        })
        .await
    }

    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, Error> {
        let tile = tile_path.to_owned();
        self.blocking(move |d| d.publisher.partials(&tile)).await
    }

    async fn headroom(&self) -> Result<Option<u64>, Error> {
        self.blocking(|d| {
            let status = rustix::fs::fstatvfs(d.publisher.root())
                .map_err(|e| Error::io("examine", d.path.display().to_string(), e.into()))?;
            Ok(Some(status.f_bavail.saturating_mul(status.f_frsize)))
        })
        .await
    }

    fn stats(&self) -> &Stats {
        &self.directory.stats
    }

    fn location(&self) -> String {
        self.directory.path.display().to_string()
    }
}

/// `mkdir -p`, each new entry synced into its parent.
pub(crate) fn make_durably(path: &Path, mode: u32) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    make_durably(parent, 0o755)?;
    let failed = |e| Error::io("make the directory", path.display().to_string(), e);
    match DirBuilder::new().mode(mode).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            if !path.is_dir() {
                return Err(failed(io::ErrorKind::NotADirectory.into()));
            }
        }
        result => result.map_err(failed)?,
    }
    open_directory(parent)?.sync_all().map_err(failed)
}
