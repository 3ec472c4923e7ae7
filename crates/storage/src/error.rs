//! The errors of [`Assets`](crate::Assets).

use std::io;

/// The reasons why assets could not be written or read. Each says what
/// happened, to which file, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum AssetError {
    /// No space, inodes or quota left.
    #[error(
        "cannot {action} {path}: the disk is full ({source}). \
         Nothing acknowledged is lost; free space or enlarge the disk, and the log goes on"
    )]
    Full {
        /// The operation that was tried.
        action: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file system or directory does not let us write.
    #[error(
        "cannot {action} {path}: {source}. The log must be able to write there: \
         check owner, mode and mount options"
    )]
    ReadOnly {
        /// The operation that was tried.
        action: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file that must not be changed is not what it should be.
    #[error(
        "cannot publish {path}: it is there with other bytes, and must not be changed \
         (`chattr +i`). Keep a copy and find out where it came from; once `chattr -i` has freed \
         it, the log writes it anew"
    )]
    Immutable {
        /// The file.
        path: String,
    },
    /// Another process has the directory open.
    #[error(
        "{directory} is in use by {}. Two processes must never run one log; stop that one first",
        owner(.pid, .machine)
    )]
    InUse {
        /// The directory.
        directory: String,
        /// The process that holds it, as far as known.
        pid: Option<u32>,
        /// The name of its machine, if it is another than this one: the file system is shared.
        machine: Option<String>,
    },
    /// The directory is not the one that was opened any more.
    #[error(
        "{directory}, or `.lucarne/lock` in it, was moved, removed, unmounted or replaced while \
         in use. Put back the one that was there: it is the log. If it is another disk now, with \
         the newest files, restart"
    )]
    Moved {
        /// The directory.
        directory: String,
    },
    /// The disk does not answer.
    #[error(
        "the disk of {directory} does not answer. Nothing acknowledged is lost; the log goes on \
         once it does"
    )]
    Silent {
        /// The directory.
        directory: String,
    },
    /// The directory of a log does not exist.
    #[error(
        "there is no directory {directory}. If the path is right and the log is new, \
         `lucarne init` makes it; otherwise mount or restore it"
    )]
    Missing {
        /// The directory.
        directory: String,
    },
    /// A file that was durable once is not what was written.
    #[error(
        "{file} is damaged at byte {offset}: {detail}. \
         Keep the file, check the disk, and see docs/reference/storage.md before removing anything"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The byte at which the damage begins.
        offset: u64,
        /// The finding.
        detail: String,
    },
    /// A write or sync failed before, so that nothing may be built on it.
    #[error("{location}: {reason}; the log must be reopened, which recovers from the journal")]
    Poisoned {
        /// The place of the files.
        location: String,
        /// The failure that came first.
        reason: String,
    },
    /// The path is none that a log publishes.
    #[error("{path:?} is not a path of the static CT API")]
    BadPath {
        /// The path, shortened.
        path: String,
    },
    /// A directory that must be on the file system of the root is not.
    #[error(
        "{path} is on another file system than {directory}. One sync must cover the whole \
         log: mount the file system at the log's directory itself"
    )]
    OtherFileSystem {
        /// The mount point or symbolic link.
        path: String,
        /// The log's directory.
        directory: String,
    },
    /// The configuration cannot be that of an object store.
    #[error("the object store is not configured rightly: {problem}")]
    Configuration {
        /// The problem with it.
        problem: String,
    },
    /// The configured store is no part of this build.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
    /// There is no bucket or container of this name.
    #[error(
        "cannot {action} {place}: there is no such bucket ({detail}). If name, region and \
         endpoint are right and the log is new, make it; otherwise restore it"
    )]
    NoBucket {
        /// The operation that was tried.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The store's answer.
        detail: String,
    },
    /// The store does not know our credentials, or does not let them do this.
    #[error(
        "cannot {action} {place}: the store refuses ({detail}). Check the credentials, and \
         that they may list, read, write and delete objects there"
    )]
    Refused {
        /// The operation that was tried.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The store's answer.
        detail: String,
    },
    /// The checkpoint in the bucket is not the one that this log put there.
    #[error(
        "{place} is not what this log published last: somebody else publishes there{}, or an older \
         one was put back. Two processes must never run one log, and never with two locks: find \
         the other one before anything else", perhaps(.by)
    )]
    Overtaken {
        /// The checkpoint and the bucket.
        place: String,
        /// The process that has files of the log open, if one is known.
        by: Option<String>,
    },
    /// The store shows a certificate that this machine does not trust.
    #[error(
        "cannot {action} {place}: the store's certificate is not trusted ({detail}). If the \
         endpoint is right, its authority goes into the system's certificates, or into a file \
         that SSL_CERT_FILE names"
    )]
    Untrusted {
        /// The operation that was tried.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The problem with the certificate.
        detail: String,
    },
    /// The store takes requests only from machines whose clock is right.
    #[error(
        "cannot {action} {place}: this machine's clock and the store's are too far apart \
         ({detail}). Set the clock; a log needs one that is kept right (NTP) anyway"
    )]
    ClockSkew {
        /// The operation that was tried.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The store's answer.
        detail: String,
    },
    /// The store did not answer in time, or said that it cannot now.
    #[error(
        "cannot {action} {place}: the store does not serve us now ({detail}). \
         Nothing acknowledged is lost; the log goes on once it does"
    )]
    Unavailable {
        /// The operation that was tried.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The store's answer.
        detail: String,
    },
    /// Any other answer of an object store.
    #[error("cannot {action} {place}: the store answers {detail}")]
    Store {
        /// The operation that was tried.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The store's answer.
        detail: String,
    },
    /// Anything else.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The operation that was tried.
        action: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

/// The error of what this build cannot do, because a cargo feature was left out of it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this build has no support for {what}: it was built without the feature `{feature}`")]
pub struct NotBuilt {
    /// The thing that it cannot do, for people.
    pub what: &'static str,
    /// The feature.
    pub feature: &'static str,
}

impl AssetError {
    /// Sorts an error of the operating system: `action` as in "cannot `action`
    /// `path`".
    pub(crate) fn io(action: &'static str, path: impl Into<String>, source: io::Error) -> Self {
        let path = path.into();
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        match source.kind() {
            StorageFull | QuotaExceeded => Self::Full {
                action,
                path,
                source,
            },
            ReadOnlyFilesystem | PermissionDenied => Self::ReadOnly {
                action,
                path,
                source,
            },
            _ => Self::Io {
                action,
                path,
                source,
            },
        }
    }

    /// True if there is no such directory or bucket: what that means depends on
    /// whether the log is new.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NoBucket { .. })
    }

    /// True if space is what is missing: the log can go on once there is some.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

fn perhaps(holder: &Option<String>) -> String {
    let named = |holder| format!(", perhaps {holder}");
    holder.as_ref().map_or_else(String::new, named)
}

fn owner(pid: &Option<u32>, machine: &Option<String>) -> String {
    match (pid, machine) {
        (Some(pid), Some(machine)) => format!("process {pid} of machine `{machine}`"),
        (Some(pid), None) => format!("process {pid}"),
        (None, _) => "another process".into(),
    }
}
