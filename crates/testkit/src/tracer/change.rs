use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

/// A change to files or directories. Files are identified by inode, because names change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new file.
    Create {
        /// Name of the file.
        path: PathBuf,
        /// Inode, known after the call.
        inode: u64,
    },
    /// A write to a file.
    Write {
        /// Name of the file at that time.
        path: PathBuf,
        /// Inode of the file.
        inode: u64,
        /// Offset of the first byte.
        offset: u64,
        /// The written bytes; empty unless changes are recorded.
        bytes: Vec<u8>,
    },
    /// A change of a file's length.
    Resize {
        /// Name of the file at that time.
        path: PathBuf,
        /// Inode of the file.
        inode: u64,
        /// New length.
        length: u64,
    },
    /// A rename of a file or directory.
    Rename {
        /// Old name.
        from: PathBuf,
        /// New name.
        to: PathBuf,
    },
    /// An additional name of a file.
    Link {
        /// Existing name.
        from: PathBuf,
        /// New name.
        to: PathBuf,
    },
    /// The removal of a name.
    Remove {
        /// Removed name.
        path: PathBuf,
    },
    /// A new directory.
    MakeDirectory {
        /// Name of the directory.
        path: PathBuf,
    },
    /// The removal of an empty directory.
    RemoveDirectory {
        /// Name of the directory.
        path: PathBuf,
    },
    /// A sync of a file or directory.
    Sync {
        /// Name at that time.
        path: PathBuf,
        /// Inode of the file or directory.
        inode: u64,
    },
    /// A sync of the whole file system.
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
    /// Returns `true` if the change makes other changes durable.
    pub fn is_sync(&self) -> bool {
        matches!(self, Change::Sync { .. } | Change::SyncAll)
    }
}

/// A completed change.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The change.
    pub change: Change,
    /// Start time of the call.
    pub begun: Instant,
    /// Number of changes that were complete when the call began. A sync makes these changes
    /// durable.
    pub after: usize,
    /// Whether the call failed without effect: a sync that reports lost writes.
    pub failed: bool,
}
