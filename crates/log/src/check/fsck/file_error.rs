//! The reasons why a file of a log cannot be read.

use std::error::Error;
use std::io;
use std::sync::Arc;

use lucarne_storage::AssetError;
use tokio::task::JoinError;

/// The reason why a file of a log cannot be read. The file may exist.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The storage of the log failed.
    #[error(transparent)]
    Storage(#[from] AssetError),
    /// Another source of files failed, such as a monitoring prefix.
    #[error(transparent)]
    Place(Box<dyn Error + Send + Sync>),
    /// Several readers share the failure of one read.
    #[error(transparent)]
    Shared(Arc<FileError>),
    /// The thread that reads the file panicked.
    #[error(transparent)]
    Task(#[from] JoinError),
    /// The thread that checks the file panicked.
    #[error("check failed: {0}")]
    Check(#[source] JoinError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::fsck::Problem;

    #[test]
    fn a_problem_keeps_the_error_of_the_storage() {
        let silent = || AssetError::Silent {
            directory: "/srv/log".to_owned(),
        };
        let problem = Problem::Unreadable(FileError::from(silent()));
        assert_eq!(problem.to_string(), format!("cannot be read: {}", silent()));
        let source = problem
            .source()
            .and_then(|error| error.downcast_ref::<FileError>());
        assert!(matches!(source, Some(FileError::Storage(_))), "{source:?}");
    }
}
