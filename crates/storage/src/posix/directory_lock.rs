//! The lock that allows one process per directory.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::processes::hold_tesseract;
use crate::AssetError;

/// The lock file: only one process at a time can lock it.
pub(super) const LOCK: &str = ".lucarne/lock";

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
    pub(super) fn release(&self) -> io::Result<()> {
        if let Some(tesseract) = &self.tesseract {
            flock(tesseract, FlockOperation::Unlock)?;
        }
        Ok(flock(&self.file, FlockOperation::Unlock)?)
    }

    pub(super) fn file(&self) -> &File {
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
