//! The failure of an index, and the file that reports it.

use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    #[error("the index has an older format, which does not record its tree")]
    Older,
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
    in_use: bool,
}

/// A lock of another process, a full or read-only disk, missing permissions and a lack of memory
/// are temporary. Wrong bytes are permanent, and after any other failure the contents of the disk
/// are unknown.
impl From<&fjall::Error> for Failure {
    fn from(error: &fjall::Error) -> Self {
        use std::io::ErrorKind::{
            OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
        };
        let damaged = match error {
            fjall::Error::Locked => false,
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
                let (full, barred) = (
                    matches!(error.kind(), StorageFull | QuotaExceeded | OutOfMemory),
                    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem),
                );
                !full && !barred
            }
            _ => true,
        };
        let problem = match error {
            fjall::Error::Locked => DedupError::InUse,
            error => DedupError::Database(error.to_string()),
        };
        Failure {
            problem,
            damaged,
            in_use: matches!(error, fjall::Error::Locked),
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
            in_use: self.in_use,
        }
    }
}

/// Runs work on an index. A panic counts as damage: assertions of fjall fail on damaged files.
pub(super) fn caught<T>(
    work: impl FnOnce() -> Result<T, Fatal>,
    damaged: impl FnOnce(fjall::Error) -> Fatal,
) -> Result<T, Fatal> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied());
        let problem = format!("an assertion failed: {}", text.unwrap_or("no message"));
        Err(damaged(fjall::Error::Io(std::io::Error::other(problem))))
    })
}

pub(super) fn fatal(path: &Path, error: &fjall::Error) -> Fatal {
    Failure::from(error).of(path)
}

impl Dedup {
    /// Runs work on the index; a panic counts as damage.
    pub(super) fn caught<T>(&self, work: impl FnOnce() -> Result<T, Fatal>) -> Result<T, Fatal> {
        caught(work, |error| self.fatal(&error))
    }

    /// Returns the error for the caller. The index is not written from then on.
    pub(crate) fn fatal(&self, error: &fjall::Error) -> Fatal {
        let failure = {
            let mut ended = self.ended.lock();
            if let (fjall::Error::Poisoned, Some(first)) = (error, &*ended) {
                // After a failed write, fjall reports only this error. The first error has the
                // reason, for example a full disk.
                return first.of(&self.path);
            }
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
pub(super) fn say_failed(path: &Path, anchor: &Anchor) -> std::io::Result<()> {
    let mut file = File::create(path.join(FAILED))?;
    file.write_all(&anchor.encode())?;
    file.sync_all()?;
    File::open(path)?.sync_all()
}

pub(super) fn has_failed(path: &Path) -> std::io::Result<bool> {
    path.join(FAILED).try_exists()
}

/// Returns the newest tree that a failed index had seen; `None` if no file records the failure or
/// the file is invalid.
pub(crate) fn last_seen(path: &Path) -> Option<TreeHead> {
    let said = std::fs::read(path.join(FAILED)).ok()?;
    // A power cut may leave zeros.
    let anchor = Anchor::decode(&said).filter(|_| said.iter().any(|byte| *byte != 0))?;
    Some(anchor.head)
}
