//! The open directory of a log, the lock that allows one process per directory, and the creation of
//! directories.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, set_permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use super::journal::{Journal, open_directory};
use super::processes::hold_tesseract;
use super::publisher::{Publisher, TEMPORARY};
use super::settle::Durability;
use crate::{AssetError, Stats, file};

/// The directory for private files.
pub(super) const OWN: &str = ".lucarne";

pub(super) struct Directory {
    pub(super) path: PathBuf,
    /// The path as given to `open`; `path` is its resolved form at that time.
    pub(super) given: PathBuf,
    pub(super) publisher: Publisher,
    pub(super) journal: Journal,
    pub(super) durability: Durability,
    /// Held by `settle` and by a call that reopens the journal, which would otherwise remove the
    /// unused segment that `settle` prepares.
    pub(super) settling: Mutex<()>,
    pub(super) stats: Arc<Stats>,
    /// Whether all writes are refused.
    pub(super) read_only: bool,
    /// Whether the directory was released to other processes.
    pub(super) closed: AtomicBool,
    /// The lock of the directory. This is the last field, so that the directory is released after
    /// all other fields are dropped.
    pub(super) lock: Option<DirectoryLock>,
}

impl Directory {
    pub(super) fn writable(&self) -> Result<&Self, AssetError> {
        let error: io::Error = if self.read_only {
            ErrorKind::ReadOnlyFilesystem.into()
        } else if self.closed.load(Ordering::SeqCst) {
            io::Error::other("the directory was released to another process")
        } else {
            return Ok(self);
        };
        let path = self.path.display().to_string();
        Err(AssetError::io("write", path, error))
    }

    pub(super) fn put_private(&self, path: &str, bytes: &[u8]) -> Result<(), AssetError> {
        let file = self.path.join(path);
        if let Some(folder) = file.parent() {
            make_durably(folder, 0o700)?;
        }
        let next = file.with_added_extension("next");
        let written = std::fs::write(&next, bytes).and_then(|()| std::fs::rename(&next, &file));
        written.map_err(|e| AssetError::io("write", file.display().to_string(), e))
    }

    pub(super) fn get_private(&self, path: &str, max: u64) -> Result<Option<Bytes>, AssetError> {
        let path = self.path.join(path);
        let read = file::open(&path).and_then(|mut file| file::read_bounded(&mut file, max));
        match read {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(AssetError::io("read", path.display().to_string(), error)),
        }
    }

    pub(super) fn let_go(&self) -> Result<(), AssetError> {
        let released = self.lock.as_ref().map_or(Ok(()), DirectoryLock::release);
        released.map_err(|e| AssetError::io("release", self.path.display().to_string(), e))
    }

    /// Fails if the path no longer leads to the open directory, or its lock file is no longer the
    /// locked file. Otherwise, rounds would be written to a directory that no process finds again,
    /// and another process could start the same log a second time.
    pub(super) fn still_there(&self) -> Result<(), AssetError> {
        let held = |lock: &DirectoryLock| is_same(&self.path.join(LOCK), lock.file());
        let same = is_same(&self.given, self.publisher.root())
            .and_then(|same| Ok(same && self.lock.as_ref().map_or(Ok(true), held)?));
        match same {
            Ok(true) => Ok(()),
            Err(e) if e.kind() != ErrorKind::NotFound => Err(AssetError::io(
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

/// The lock file: only one process at a time can lock it.
const LOCK: &str = ".lucarne/lock";

/// Holds the directory for this process. The kernel releases the lock when the process ends for any
/// reason. The file stays, and its existence has no meaning.
pub(super) struct DirectoryLock {
    file: File,
    /// Prevents a TesseraCT that ran the log before from starting.
    tesseract: Option<File>,
}

impl DirectoryLock {
    /// Takes [`LOCK`] for the log in `directory`.
    pub(super) fn take(directory: &Path) -> Result<Self, AssetError> {
        let path = directory.join(LOCK);
        let failed = |action| {
            let path = path.display().to_string();
            move |e| AssetError::io(action, path, e)
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).open(&path).map_err(failed("open"))?;
        hold(&mut file, directory, &path)?;
        // The note is for operators and for the error message; the lock does not depend on the
        // note.
        let noted = file
            .set_len(0)
            .and_then(|()| writeln!(file, "{} {}", std::process::id(), machine()));
        if let Err(e) = noted {
            tracing::debug!(path = %path.display(), error = %e, "cannot note the process id");
        }
        let tesseract = hold_tesseract(directory)?;
        Ok(Self { file, tesseract })
    }

    /// Releases the directory for another process.
    fn release(&self) -> io::Result<()> {
        if let Some(tesseract) = &self.tesseract {
            flock(tesseract, FlockOperation::Unlock)?;
        }
        Ok(flock(&self.file, FlockOperation::Unlock)?)
    }

    fn file(&self) -> &File {
        &self.file
    }

    /// Takes the lock without writing; `None` if no process ever took it.
    pub(super) fn look(directory: &Path) -> Result<Option<Self>, AssetError> {
        let path = directory.join(LOCK);
        match File::open(&path) {
            Ok(mut file) => {
                hold(&mut file, directory, &path)?;
                let tesseract = hold_tesseract(directory)?;
                Ok(Some(Self { file, tesseract }))
            }
            Err(e) if e.kind() == ErrorKind::NotFound => hold_tesseract(directory).map(|_| None),
            Err(e) => Err(AssetError::io("open", path.display().to_string(), e)),
        }
    }
}

/// Returns the name of this machine, without spaces.
fn machine() -> String {
    let name = rustix::system::uname();
    name.nodename()
        .to_string_lossy()
        .replace(char::is_whitespace, "-")
}

/// Locks the file, or returns an error that names the holder.
fn hold(file: &mut File, directory: &Path, path: &Path) -> Result<(), AssetError> {
    match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            let mut words = owner.split_whitespace();
            let (pid, other) = (words.next(), words.next().filter(|name| *name != machine()));
            Err(AssetError::InUse {
                directory: directory.display().to_string(),
                pid: pid.and_then(|pid| pid.parse().ok()),
                machine: other.map(str::to_owned),
            })
        }
        Err(e) => Err(AssetError::io("lock", path.display().to_string(), e.into())),
    }
}

/// Returns `true` if the path leads to the open file.
pub(super) fn is_same(path: &Path, file: &File) -> io::Result<bool> {
    let (there, open) = (path.metadata()?, file.metadata()?);
    Ok((there.dev(), there.ino()) == (open.dev(), open.ino()))
}

/// Creates the directories in [`OWN`] that are missing. Another program can remove them while the
/// log runs.
pub(super) fn make_own_directories(path: &Path) -> Result<(), AssetError> {
    make_durably(&path.join(OWN).join("journal"), 0o700)?;
    make_durably(&path.join(TEMPORARY), 0o700)
}

/// Removes permissions of other users that an older version or a umask left.
pub(super) fn keep_private(own: &Path) {
    let open = |mode: u32| mode & 0o077 != 0;
    if !own.metadata().is_ok_and(|metadata| open(metadata.mode())) {
        return;
    }
    if let Err(error) = set_permissions(own, Permissions::from_mode(0o700)) {
        tracing::warn!(%error, "{}: other users may enter, and Lucarne cannot change the mode: \
                                run `chmod 700`", own.display());
    }
}

/// Returns the directory, which must exist, as an absolute path without links.
pub(super) fn existing(path: &Path) -> Result<PathBuf, AssetError> {
    let failed = |e: io::Error| match e.kind() {
        ErrorKind::NotFound => AssetError::Missing {
            directory: path.display().to_string(),
        },
        _ => AssetError::io("open", path.display().to_string(), e),
    };
    let real = path.canonicalize().map_err(failed)?;
    if !real.is_dir() {
        let error = ErrorKind::NotADirectory.into();
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
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            if !path.is_dir() {
                return Err(failed(ErrorKind::NotADirectory.into()));
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
