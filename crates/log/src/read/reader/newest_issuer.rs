//! An issuer of the newest entries, which shows whether storage keeps its issuers.
//!
//! A missing issuer usually means that no entry refers to the issuer. If storage also lacks an
//! issuer of the newest entries, the folder of issuers was removed, and this conclusion is wrong.

use std::time::{Duration, Instant};

use lucarne_ct::{Fingerprint, TileEntries};
use lucarne_tlog::{Level, TILE_WIDTH, Tile};
use parking_lot::Mutex;

use super::{Edge, Reader, from_edge};
use crate::error::ReadError;
use crate::read::read_cache::FileId;

/// The time during which a result is reused.
const RESPITE: Duration = Duration::from_secs(1);

/// The last time that storage had the issuer.
#[derive(Default)]
pub(super) struct LastLook(Mutex<Option<Instant>>);

impl Reader {
    /// Checks that storage has an issuer of the newest entries.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] if the issuer is missing; it is then in the list of damaged files.
    pub(crate) async fn keeps_issuers(&self) -> Result<(), ReadError> {
        let last = *self.last_look.0.lock();
        if last.is_some_and(|last| last.elapsed() < RESPITE) {
            return Ok(());
        }
        let Some(view) = self.view.load_full() else {
            return Ok(());
        };
        let Some(issuer) = self.newest_issuer().await? else {
            return Ok(());
        };
        let edge = self.edge(&view).await?;
        self.tiles.stored(&edge, FileId::Issuer(issuer)).await?;
        *self.last_look.0.lock() = Some(Instant::now());
        Ok(())
    }

    /// Returns an issuer of the newest data tile; `None` if its entries have no issuers.
    async fn newest_issuer(&self) -> Result<Option<Fingerprint>, ReadError> {
        let Some(view) = self.view.load_full() else {
            return Ok(None);
        };
        let size = view.published.size;
        let last = size.saturating_sub(1) / TILE_WIDTH;
        let Some(tile) = Tile::widest(Level::Data, last, size) else {
            return Ok(None);
        };
        let held = view.tree.as_ref().and_then(|tree| from_edge(tree, tile));
        let plain = match held {
            Some(Edge::Entries(plain)) => plain,
            Some(Edge::Ready(stored)) if stored.plain.is_some() => stored.plain.unwrap_or_default(),
            _ => self.tiles.entries(&self.edge(&view).await?, tile).await?,
        };
        for entry in TileEntries::all(&plain, tile.start_leaf()) {
            let entry = entry.map_err(|error| ReadError::Damaged {
                path: tile.path(),
                problem: error.to_string(),
            })?;
            if let Some(issuer) = entry.leaf.fingerprints.into_iter().next() {
                return Ok(Some(issuer));
            }
        }
        Ok(None)
    }
}
