//! Reads that must not be older than the checkpoints that another process of the log has shown.

use std::sync::Arc;

use lucarne_tlog::Tile;

use super::Log;
use crate::error::ReadError;
use crate::status::state::Published;

impl Log {
    /// Returns the newest checkpoint that any process of this log has shown to readers before this
    /// call. Reads the published checkpoint from storage if another process may have a newer one.
    /// If storage does not respond, returns the newest checkpoint that this process knows.
    pub async fn newest_published(&self) -> Option<Arc<Published>> {
        // Boxed, because nearly every read skips this large future.
        if let Err(error) = Box::pin(self.shared.look_for_newest()).await {
            let log = &self.shared.config.shortname;
            tracing::debug!(log, %error, "readers may see an old checkpoint");
        }
        self.published()
    }

    /// Reads the published checkpoint from storage if readers see fewer than `size` entries, and
    /// another process may have shown so many.
    ///
    /// # Errors
    /// If storage cannot be read.
    pub async fn reach(&self, size: u64) -> Result<(), ReadError> {
        let seen = self.published().map_or(0, |published| published.size);
        if seen < size {
            Box::pin(self.shared.look_for_newest()).await?;
        }
        Ok(())
    }

    /// Does [`reach`](Self::reach) for a tile. A log with one instance skips it.
    pub(super) async fn reach_tile(&self, tile: Tile) -> Result<(), ReadError> {
        match self.shared.config.instances {
            Some(_) => self.reach(tile.end_leaf()).await,
            None => Ok(()),
        }
    }
}
