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
}
