//! Opening, inspecting and rebuilding an index.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lucarne_ct::LogId;
use parking_lot::{Mutex, RwLock};

use super::anchor::{self, AnchorFile};
use super::earlier;
use super::failure::{self, fatal, last_seen, unsound};
use super::merger::Merger;
use super::{Dedup, TABLES, Tables, Unflushed};
use crate::data::tree::TreeHead;
use crate::error::inconsistency::IndexInconsistency;
use crate::error::{DedupError, Fatal};
use crate::index::backlog::Pace;
use crate::index::unreadable_entries::Gaps;

/// The file whose lock excludes other processes.
pub(super) const LOCK: &str = "lock";
/// Number of attempts to lock an index. Commands that only inspect an index have it open for a
/// moment.
const LOCK_ATTEMPTS: u32 = 3;
/// The pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of damaged indices that are kept. If more indices fail, a rebuild does not remove
/// the cause.
pub(super) const MOST_SET_ASIDE: usize = 9;

impl Dedup {
    /// Opens the index in `path`, or creates it.
    ///
    /// # Errors
    /// If another process has the index open, or if the index belongs to another log or is damaged.
    pub(crate) fn open(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        let failed = |error: io::Error| fatal(path, &error);
        if failure::has_failed(path).map_err(failed)? {
            return Err(unsound(path, DedupError::Failed));
        }
        fs::create_dir_all(path).map_err(failed)?;
        let mut options = File::options();
        let lock = options.create(true).truncate(false).write(true);
        let lock = lock.open(path.join(LOCK)).map_err(failed)?;
        locked(path, &lock)?;
        let file = AnchorFile::open(path, owner)?;
        let noted = file.noted.clone();
        let tables = Tables::open(path.join(TABLES), &noted.tables).map_err(failed)?;
        let (tables, file) = (Arc::new(tables), Arc::new(Mutex::new(file)));
        let gaps = Gaps::default();
        gaps.set(noted.gaps);
        Ok(Dedup {
            path: path.to_path_buf(),
            merger: Merger::start(tables.clone(), file.clone()).map_err(failed)?,
            tables,
            unflushed: RwLock::new(Unflushed::since(noted.anchor)),
            file,
            gaps,
            pace: Pace::default(),
            distrusted: AtomicBool::new(noted.distrusted),
            ended: Mutex::default(),
            _lock: lock,
        })
    }

    /// Renames an index that cannot be used, and creates an empty index in its place.
    pub(crate) fn rebuild(path: &Path, owner: LogId) -> Result<Self, Fatal> {
        let failed = |error: io::Error| fatal(path, &error);
        if path.try_exists().map_err(failed)? {
            let aside = vacant(path)?;
            fs::rename(path, &aside).map_err(failed)?;
            tracing::warn!(
                "the dedup index {} cannot be used: the log keeps it as {}, and rebuilds the index",
                path.display(),
                aside.display()
            );
        }
        Dedup::open(path, owner)
    }

    /// Returns the newest tree that the index of this log in `path` has seen, even if it cannot be
    /// used; `None` if there is no index. Writes nothing.
    ///
    /// # Errors
    /// If the index cannot be read, or if another process has it open.
    pub(crate) fn look(path: &Path, owner: LogId) -> Result<Option<TreeHead>, Fatal> {
        let failed = |error: io::Error| fatal(path, &error);
        if failure::has_failed(path).map_err(failed)? {
            let seen = last_seen(path).map(Some);
            return seen.ok_or_else(|| unsound(path, DedupError::Failed));
        }
        let lock = match File::open(path.join(LOCK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return earlier::look(path),
            opened => opened.map_err(failed)?,
        };
        locked(path, &lock)?;
        let noted = anchor::read(path, owner)?;
        Ok(noted.map(|noted| noted.anchor.head))
    }
}

/// Locks the index in `path` by its open file `lock`.
pub(super) fn locked(path: &Path, lock: &File) -> Result<(), Fatal> {
    for attempt in 1..=LOCK_ATTEMPTS {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(fatal(path, &error)),
            Err(TryLockError::WouldBlock) if attempt == LOCK_ATTEMPTS => {}
            // This process gets no event when the other process ends.
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
    Err(Fatal::Dedup {
        path: path.display().to_string(),
        problem: DedupError::InUse,
        damaged: false,
        in_use: true,
    })
}

/// Returns the path of index number `n` that was set aside.
fn aside(path: &Path, n: usize) -> PathBuf {
    path.with_added_extension(format!("damaged-{n}"))
}

/// Returns the path of the first index that is set aside.
pub(crate) fn set_aside(path: &Path) -> PathBuf {
    aside(path, 1)
}

/// Returns a free path for an index that is set aside.
fn vacant(path: &Path) -> Result<PathBuf, Fatal> {
    let names = (1..=MOST_SET_ASIDE).map(|n| aside(path, n));
    let mut vacant = names.filter(|name| matches!(name.try_exists(), Ok(false)));
    vacant.next().ok_or_else(|| {
        Fatal::from(IndexInconsistency::TooManyDamaged {
            path: path.to_path_buf(),
            most: MOST_SET_ASIDE,
        })
    })
}
