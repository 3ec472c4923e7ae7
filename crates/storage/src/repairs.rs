//! The trait [`Repairs`]: replacement of damaged files.

use async_trait::async_trait;

use crate::{Asset, AssetError};

/// Directory for damaged files, in the log's private directory.
pub(crate) const KEPT: &str = ".lucarne/damaged";

/// Replaces files that differ from the bytes of the log, while another process serves them. The old
/// files are evidence and are never lost.
#[async_trait]
pub trait Repairs: Send + Sync {
    /// Replaces the file at the path of `asset` atomically and durably. Returns the location of the
    /// kept old file, or `None` if no file existed.
    ///
    /// # Errors
    ///
    /// After an error, the old file is still at its path, or among the kept files.
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError>;

    /// Returns the error with which [`replace`](Self::replace) would fail, as far as this can be
    /// known without a write.
    ///
    /// # Errors
    ///
    /// The errors of [`replace`](Self::replace).
    async fn may_replace(&self, path: &str) -> Result<(), AssetError> {
        let _ = path;
        Ok(())
    }

    /// Returns the damaged rounds that
    /// [`remove_damaged_rounds`](Self::remove_damaged_rounds) would remove.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read.
    async fn damaged_rounds(&self, size: u64) -> Result<Vec<String>, AssetError> {
        let _ = size;
        Ok(Vec::new())
    }

    /// Removes the damaged rounds that a published checkpoint of `size` entries covers. The caller
    /// has verified that all files of its tree are right, and that the lock has the same tree. A
    /// directory that another process has open stays unchanged.
    ///
    /// # Errors
    ///
    /// After an error, some of the rounds may have been removed.
    async fn remove_damaged_rounds(&self, size: u64) -> Result<Vec<Removed>, AssetError> {
        let _ = size;
        Ok(Vec::new())
    }
}

/// A damaged file that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Former location of the file.
    pub file: String,
    /// Location of the kept copy.
    pub kept: String,
}
