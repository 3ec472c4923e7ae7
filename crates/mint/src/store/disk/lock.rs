//! A lock per key between processes.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::time::Instant;

use super::private::private_file;

/// The number of lock files: keys share them, so that their number does
/// not grow with that of the hosts.
pub(super) const STRIPES: u8 = 64;

/// The time that another process may take before it is no longer waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A lock that is held. The kernel lets go of it when it is dropped, or its
/// process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock, and not on a thread: others of this process want it
    /// too.
    pub(super) async fn take(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        let begun = Instant::now();
        let mut pause = Duration::from_millis(1);
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error.into());
            }
            if begun.elapsed() >= PATIENCE {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("{} is held by a process that hangs", path.display()),
                ));
            }
            // Nothing tells when another process lets go without blocking a
            // thread for as long.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        Ok(Lock { _file: file })
    }

    /// The lock, if nobody holds it.
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
    private_file().create(true).truncate(false).open(path)
}
