//! The failure of an index, and the file that reports it.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use super::{Anchor, Dedup};
use crate::data::tree::TreeHead;
use crate::error::{DedupError, Fatal};

/// Name of the file that marks a failed index. The file contains the last anchor, from memory.
const FAILED: &str = "failed";

/// The reasons why an index is not used and must be rebuilt.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    /// Reads or writes failed while the log ran.
    #[error("the index failed while the log ran")]
    Failed,
    #[error("the index has a wrong position for an entry")]
    Distrusted,
    /// The files differ from the written bytes.
    #[error("{0}")]
    Damaged(DedupError),
}

/// A failure of the index. The files of a damaged index are never used again.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    problem: DedupError,
    pub(super) damaged: bool,
}

/// A full or read-only disk, missing permissions and a lack of memory are temporary. Wrong bytes
/// are permanent, and after any other failure the contents of the disk are unknown.
impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        use ErrorKind::{
            OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
        };
        let (full, barred) = (
            matches!(error.kind(), StorageFull | QuotaExceeded | OutOfMemory),
            matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem),
        );
        Failure {
            problem: DedupError::Disk(error.to_string()),
            damaged: !full && !barred,
        }
    }
}

impl Failure {
    /// Returns the error of the index in `path`.
    pub(super) fn of(&self, path: &Path) -> Fatal {
        Fatal::Dedup {
            path: path.display().to_string(),
            problem: self.problem.clone(),
            damaged: self.damaged,
            in_use: false,
        }
    }
}

pub(super) fn fatal(path: &Path, error: &io::Error) -> Fatal {
    Failure::from(error).of(path)
}

impl Dedup {
    /// Returns the error for the caller. The index is not written from then on.
    pub(crate) fn fatal(&self, error: &io::Error) -> Fatal {
        let failure = {
            let mut ended = self.ended.lock();
            let failure = Failure::from(error);
            let marked = ended.as_ref().is_some_and(|first| first.damaged);
            if marked || (ended.is_some() && !failure.damaged) {
                return failure.of(&self.path);
            }
            *ended = Some(failure.clone());
            failure
        };
        // The disk may hang: no lock is held here.
        if failure.damaged {
            let anchor = {
                let unflushed = self.unflushed.read();
                Anchor {
                    head: unflushed.seen,
                    ..unflushed.anchor.clone()
                }
            };
            if let Err(error) = say_failed(&self.path, &anchor) {
                // This process still has the failure in memory.
                let path = self.path.display();
                tracing::error!(
                    %path,
                    %error,
                    "the dedup index has failed, and the failure cannot be recorded in its \
                     directory: check the disk"
                );
            }
        }
        failure.of(&self.path)
    }

    pub(super) fn unsound(&self, problem: DedupError) -> Fatal {
        unsound(&self.path, problem)
    }
}

pub(super) fn unsound(path: &Path, problem: DedupError) -> Fatal {
    Fatal::Dedup {
        path: path.display().to_string(),
        problem,
        damaged: true,
        in_use: false,
    }
}

/// Writes the file that reports a failed index, with its anchor.
pub(super) fn say_failed(path: &Path, anchor: &Anchor) -> io::Result<()> {
    let mut file = File::create(path.join(FAILED))?;
    file.write_all(&serde_json::to_vec(anchor)?)?;
    file.sync_all()?;
    File::open(path)?.sync_all()
}

pub(super) fn has_failed(path: &Path) -> io::Result<bool> {
    path.join(FAILED).try_exists()
}

/// Returns the newest tree that a failed index had seen; `None` if no file records the failure or
/// the file is invalid.
pub(crate) fn last_seen(path: &Path) -> Option<TreeHead> {
    let said = std::fs::read(path.join(FAILED)).ok()?;
    let anchor: Anchor = serde_json::from_slice(&said).ok()?;
    anchor.is_valid().then_some(anchor.head)
}
