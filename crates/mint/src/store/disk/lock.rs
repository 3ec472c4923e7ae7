//! Locks between processes. Each key has one of [`STRIPES`] lock files.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::time::Instant;

use super::private::{open_regular, private_file};

/// Number of lock files. Keys share lock files, so that the number of files does not grow with the
/// hosts.
pub(super) const STRIPES: u8 = 64;

/// Longest wait for another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// A lock. The kernel releases the lock when this value is dropped or the process ends in any way.
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
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
