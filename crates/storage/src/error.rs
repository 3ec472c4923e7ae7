//! The errors of [`Assets`](crate::Assets).

use std::io;

/// The reasons why assets could not be written or read. Each text states the failure, the file and
/// the remedy.
#[derive(Debug, thiserror::Error)]
pub enum AssetError {
    /// The disk has no space, inodes or quota left.
    #[error(
        "cannot {action} {path}: the disk is full ({source}). Nothing acknowledged is lost; free \
         space or enlarge the disk, and the log continues"
    )]
    Full {
        /// The failed operation.
        action: &'static str,
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file system or the directory does not allow writing.
    #[error(
        "cannot {action} {path}: {source}. The log must be able to write there: \
         check owner, mode and mount options"
    )]
    ReadOnly {
        /// The failed operation.
        action: &'static str,
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// An immutable file has unexpected bytes.
    #[error(
        "cannot write {path}: the file exists with other bytes and is immutable (`chattr +i`). \
         Keep a copy and find out where the file came from; after `chattr -i`, it can be written \
         again"
    )]
    Immutable {
        /// Path of the file.
        path: String,
    },
    /// Another process has the directory open.
    #[error(
        "{directory} is in use by {}. Two processes must never run one log; stop that process \
         first",
        owner(.pid, .machine)
    )]
    InUse {
        /// Path of the directory.
        directory: String,
        /// The process that has the directory open; `None` if unknown.
        pid: Option<u32>,
        /// The name of the process's machine; `None` if it is this machine.
        machine: Option<String>,
    },
    /// The path no longer leads to the directory that was opened.
    #[error(
        "{directory}, or `.lucarne/lock` in it, was moved, removed, unmounted or replaced while \
         in use. Restore the original directory, which has the log. If this is a new disk with \
         the newest files, restart"
    )]
    Moved {
        /// Path of the directory.
        directory: String,
    },
    /// The disk does not respond.
    #[error(
        "the disk of {directory} does not respond. Nothing acknowledged is lost; the log \
         continues when the disk responds"
    )]
    Silent {
        /// Path of the directory.
        directory: String,
    },
    /// The directory of a log does not exist.
    #[error(
        "directory {directory} does not exist. If the path is correct and the log is new, run \
         `lucarne init`; otherwise mount or restore the directory"
    )]
    Missing {
        /// Path of the directory.
        directory: String,
    },
    /// A file that was durable does not have the bytes that were written.
    #[error(
        "{file} is damaged at byte {offset}: {detail}. \
         Keep the file, check the disk, and see docs/reference/errors.md before removing anything"
    )]
    Damaged {
        /// Path of the file.
        file: String,
        /// The byte at which the damage begins.
        offset: u64,
        /// Description of the damage.
        detail: &'static str,
    },
    /// An earlier write or sync failed, so later writes and syncs cannot be trusted.
    #[error(
        "cannot write to {location}: {reason}; the log must be reopened, which recovers from the \
         journal"
    )]
    Poisoned {
        /// The location of the files.
        location: String,
        /// The first failure.
        reason: String,
    },
    /// A log publishes no file at this path.
    #[error("{path:?} is not a path of the static CT API")]
    BadPath {
        /// The path, truncated.
        path: String,
    },
    /// A directory is not on the file system of the root.
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
    /// The configuration of the object store is invalid.
    #[error("invalid configuration of the object store: {problem}")]
    Configuration {
        /// The reason.
        problem: String,
    },
    /// This build does not include the configured store.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
    /// The bucket or container does not exist.
    #[error(
        "cannot {action} {place}: no such bucket ({detail}). If name, region and endpoint are \
         correct and the log is new, create the bucket; otherwise restore it"
    )]
    NoBucket {
        /// The failed operation.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The store's response.
        detail: String,
    },
    /// The store rejects the credentials, or they do not permit the operation.
    #[error(
        "cannot {action} {place}: the store refuses the request ({detail}). Check the \
         credentials and their permissions to list, read, write and delete objects there"
    )]
    Refused {
        /// The failed operation.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The store's response.
        detail: String,
    },
    /// The checkpoint in the bucket differs from the checkpoint that this process published.
    #[error(
        "{place} is not the checkpoint that this log published last: another process publishes \
         there{}, or an older checkpoint was restored. Two processes must never run one log, and \
         two locks lead to two histories: find and stop the other process before anything else",
        perhaps(.by)
    )]
    Overtaken {
        /// The checkpoint and the bucket.
        place: String,
        /// The process that has files of the log open, if known.
        by: Option<String>,
    },
    /// The bucket has no checkpoint, although this process has published one.
    #[error(
        "the published checkpoint is missing from {place}: storage was emptied or rolled back. \
         Restore the newest storage. The log continues if storage and journal lead to the \
         checkpoint of the lock"
    )]
    CheckpointMissing {
        /// The bucket.
        place: String,
    },
    /// This machine does not trust the store's certificate.
    #[error(
        "cannot {action} {place}: the store's certificate is not trusted ({detail}). If the \
         endpoint is correct, add its certificate authority to the system's certificates, or \
         name its file in SSL_CERT_FILE"
    )]
    Untrusted {
        /// The failed operation.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The reason.
        detail: String,
    },
    /// The store rejects requests because this machine's clock is wrong.
    #[error(
        "cannot {action} {place}: this machine's clock and the store's are too far apart \
         ({detail}). Set the clock; a log requires a synchronized clock (NTP)"
    )]
    ClockSkew {
        /// The failed operation.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The store's response.
        detail: String,
    },
    /// The store did not respond in time, or reported that it is unavailable.
    #[error(
        "cannot {action} {place}: the store is unavailable ({detail}). Nothing acknowledged is \
         lost; the log continues when the store is available"
    )]
    Unavailable {
        /// The failed operation.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The store's response, or the error of the connection.
        detail: String,
    },
    /// The store lacks a feature that a log needs.
    #[error(
        "cannot {action} {place}: the store is unsuitable for a log ({detail}). It does not \
         support the request, or its response lacks an e-tag, a length or a time: use another \
         store (docs/reference/storage.md lists some)"
    )]
    Unsuitable {
        /// The failed operation.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The store's response.
        detail: String,
    },
    /// Any other response of an object store.
    #[error("cannot {action} {place}: the store responded with {detail}")]
    Store {
        /// The failed operation.
        action: &'static str,
        /// The object and the bucket.
        place: String,
        /// The store's response.
        detail: String,
    },
    /// Any other system error.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The failed operation.
        action: &'static str,
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// The error for an operation that this build lacks, because a cargo feature was disabled.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this build has no support for {what}: it was built without the feature `{feature}`")]
pub struct NotBuilt {
    /// The missing support, for messages.
    pub what: &'static str,
    /// The cargo feature that adds the support.
    pub feature: &'static str,
}

impl AssetError {
    /// Converts an error of the operating system. The message reads "cannot `action` `path`".
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

    /// Returns `true` if the directory or bucket does not exist. The meaning depends on whether the
    /// log is new.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NoBucket { .. })
    }

    /// Returns `true` if the error may concern only this file: other files can still be written.
    pub fn is_of_one_file(&self) -> bool {
        matches!(
            self,
            Self::Immutable { .. }
                | Self::ReadOnly { .. }
                | Self::Io { .. }
                | Self::Refused { .. }
                | Self::Store { .. }
        )
    }

    /// Returns `true` if the disk is full: the log continues when there is space.
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
