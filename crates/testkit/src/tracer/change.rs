use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

/// A change to files or directories. Files are known by their inode: names come
/// and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A file that was not there.
    Create {
        /// Its name.
        path: PathBuf,
        /// Its inode, once the call was made.
        inode: u64,
    },
    /// Bytes of a file.
    Write {
        /// The file's name then.
        path: PathBuf,
        /// The file.
        inode: u64,
        /// The place of the first byte.
        offset: u64,
        /// The bytes that were written; empty unless changes are recorded.
        bytes: Vec<u8>,
    },
    /// A file of another length.
    Resize {
        /// The file's name then.
        path: PathBuf,
        /// The file.
        inode: u64,
        /// Its new length.
        length: u64,
    },
    /// A file or directory of another name.
    Rename {
        /// The name before.
        from: PathBuf,
        /// The name after.
        to: PathBuf,
    },
    /// One more name of a file.
    Link {
        /// The name that it has.
        from: PathBuf,
        /// The new one.
        to: PathBuf,
    },
    /// A name less.
    Remove {
        /// The name.
        path: PathBuf,
    },
    /// A directory that was not there.
    MakeDirectory {
        /// Its name.
        path: PathBuf,
    },
    /// An empty directory less.
    RemoveDirectory {
        /// Its name.
        path: PathBuf,
    },
    /// A file or directory made durable.
    Sync {
        /// Its name then.
        path: PathBuf,
        /// The file or directory.
        inode: u64,
    },
    /// The whole file system made durable.
    SyncAll,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Create { path, .. } => write!(f, "create {}", path.display()),
            Change::Write { path, offset, .. } => write!(f, "write {} at {offset}", path.display()),
            Change::Resize { path, length, .. } => {
                write!(f, "resize {} to {length}", path.display())
            }
            Change::Rename { from, to } => {
                write!(f, "rename {} to {}", from.display(), to.display())
            }
            Change::Link { from, to } => write!(f, "link {} as {}", from.display(), to.display()),
            Change::Remove { path } => write!(f, "remove {}", path.display()),
            Change::MakeDirectory { path } => write!(f, "mkdir {}", path.display()),
            Change::RemoveDirectory { path } => write!(f, "rmdir {}", path.display()),
            Change::Sync { path, .. } => write!(f, "sync {}", path.display()),
            Change::SyncAll => write!(f, "syncfs"),
        }
    }
}

impl Change {
    /// Returns whether it makes other changes durable.
    pub fn is_sync(&self) -> bool {
        matches!(self, Change::Sync { .. } | Change::SyncAll)
    }
}

/// A change that was made.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The change.
    pub change: Change,
    /// The moment at which the call was begun.
    pub begun: Instant,
    /// The number of changes that had been made by then: those a sync holds for.
    pub after: usize,
    /// The call failed without effect: a sync that tells of writes that are lost.
    pub failed: bool,
}
