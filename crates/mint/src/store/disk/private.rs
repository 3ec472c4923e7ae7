//! Files, directories and locks that only the owner of a store can access.

use std::fs::{self, DirBuilder, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use tokio::time::Instant;

/// Number of lock files. Keys share lock files, so that the number of files does not grow with the
/// hosts.
pub(super) const STRIPES: u8 = 64;

/// Longest wait for another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// A lock between processes. The kernel releases the lock when this value is dropped or the process
/// ends in any way.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock without blocking a thread, because other tasks of this process may wait
    /// for the same lock.
    pub(super) async fn take(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        let begun = Instant::now();
        let mut pause = Duration::from_millis(1);
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error.into());
            }
            if begun.elapsed() >= LOCK_TIMEOUT {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!(
                        "another process has held the lock {} for more than {LOCK_TIMEOUT:?}",
                        path.display()
                    ),
                ));
            }
            // There is no notification of the release without blocking a thread.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        Ok(Lock { _file: file })
    }

    pub(super) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        let file = open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    open_regular(private_file().create(true).truncate(false), path)
        .map_err(|error| saying(path, error))
}

pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Creates a private directory, unless it exists.
pub(super) fn private_directory(path: &Path) -> io::Result<()> {
    let create = || match DirBuilder::new().mode(0o700).recursive(true).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        done => done,
    };
    // A sweep of another process may remove an existing directory before `is_dir` reads its type.
    create().or_else(|_| create())
}

/// Opens a regular file. Returns an error for everything else, and does not wait for the other end
/// of a FIFO.
pub(super) fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let opened = options
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path);
    // A FIFO without a reader and a socket cannot be opened. The error does not name the reason.
    let found = match &opened {
        Ok(file) => file.metadata(),
        Err(_) => fs::metadata(path),
    };
    match found.map(|found| found.file_type()) {
        Ok(kind) if !kind.is_file() => {
            let name = name(kind);
            let problem = format!("expected a regular file, found a {name}: remove the {name}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
        }
        _ => opened,
    }
}

fn name(kind: FileType) -> &'static str {
    match () {
        () if kind.is_dir() => "directory",
        () if kind.is_fifo() => "FIFO",
        () if kind.is_socket() => "socket",
        () => "device",
    }
}

/// Adds the path to an error.
pub(super) fn saying(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
