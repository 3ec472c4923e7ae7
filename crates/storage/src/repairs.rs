//! The trait [`Repairs`]: right files in place of damaged ones.

use async_trait::async_trait;

use crate::{Asset, AssetError};

/// The place below a log's own files where damaged ones are kept.
pub(crate) const KEPT: &str = ".lucarne/damaged";

/// Puts files of a log right that are not what the log wrote, beside whatever
/// process serves them. What was there is evidence, and never lost.
#[async_trait]
pub trait Repairs: Send + Sync {
    /// Puts `asset` in place of what is at its path, at once and durably. Returns
    /// where that is kept, or `None` if nothing was there.
    ///
    /// # Errors
    ///
    /// What was there is then still at its path, or kept.
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError>;

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

    /// Removes damaged rounds from the journal that a published checkpoint of `size` entries,
    /// which the caller has verified, covers; where a recovery can need them, none.
    ///
    /// # Errors
    ///
    /// Some of them may then have been removed.
    async fn remove_damaged_rounds(&self, size: u64) -> Result<Vec<Removed>, AssetError> {
        let _ = size;
        Ok(Vec::new())
    }
}

/// A damaged file that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The place where it was.
    pub file: String,
    /// The place where it is kept.
    pub kept: String,
}
