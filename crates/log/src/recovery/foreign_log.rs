//! The published tree of a log that other software has written, or still writes, and an index of
//! this tree.
//!
//! Only the published data is read, so a running log is not disturbed. If the checkpoint in the
//! lock is newer than the published checkpoint, the start of the log publishes the missing round.

use std::sync::Arc;

use lucarne_ct::Roots;
use lucarne_storage::{Assets, Lock, MemoryLock, ReadAssets};
use lucarne_tlog::{Checkpoint, TILE_WIDTH};
use prometheus_client::registry::Registry;
use tokio::task::spawn_blocking;

use crate::config::LogConfig;
use crate::data::tree::Tree;
use crate::data::verified_checkpoint::VerifiedCheckpoint;
use crate::error::inconsistency::StorageInconsistency;
use crate::error::{Fatal, KnownError};
use crate::index::catchup;
use crate::recovery::known_checkpoints::{History, KnownCheckpoint};
use crate::recovery::recover;
use crate::shared::Shared;
use crate::status::metrics::Metrics;
use crate::status::state::Published;

/// The published tree of a log from other software.
pub struct ForeignLog {
    config: LogConfig,
    head: VerifiedCheckpoint,
    tree: Tree,
    assets: Arc<dyn Assets>,
}

/// The result of updating an index to a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Number of entries that the index had before.
    pub from: u64,
    /// Number of entries that the index has now.
    pub to: u64,
}

impl Indexed {
    /// Returns the number of data tiles that the update read.
    pub fn tiles(&self) -> u64 {
        if self.from < self.to {
            self.to.div_ceil(TILE_WIDTH) - self.from / TILE_WIDTH
        } else {
            0
        }
    }
}

impl ForeignLog {
    /// Opens the published tree of a log that other software has written, or still writes. Writes
    /// nothing, and does not read the lock.
    ///
    /// # Errors
    /// If no checkpoint of this log is published, or its tiles do not lead to the root of the
    /// checkpoint.
    pub async fn open(config: LogConfig, assets: Arc<dyn Assets>) -> Result<Self, Fatal> {
        let head = recover::published(&config, &*assets).await?;
        let head = head.ok_or_else(|| StorageInconsistency::NoCheckpoint {
            storage: assets.location(),
            origin: config.origin.clone(),
        })?;
        let tree = recover::published_tree(&head, &*assets).await?;
        Ok(ForeignLog {
            config,
            head,
            tree,
            assets,
        })
    }

    /// Returns the published checkpoint, with its signed bytes and its timestamp.
    pub fn published(&self) -> Published {
        self.head.published()
    }

    /// Returns origin, size and root of the published checkpoint, for the verification of files.
    pub fn checkpoint(&self) -> Checkpoint {
        self.head.checkpoint.clone()
    }

    /// Compares the tree with an earlier checkpoint of the log.
    ///
    /// # Errors
    /// See [`KnownError`].
    pub async fn hold_against(&self, known: &KnownCheckpoint) -> Result<(), KnownError> {
        let history = History::new(self.assets.clone(), &self.tree.edge, Vec::new());
        history.hold_against(known).await
    }

    /// Updates the dedup index to this tree, with the same code as the start of a log. The start
    /// then only adds later entries. Writes only to the log's cache. Rejects an index that has more
    /// entries than the tree.
    ///
    /// # Errors
    /// If the index belongs to another history or is in use, or if storage does not respond.
    pub async fn index(&self) -> Result<Indexed, Fatal> {
        // The index is bound to the published checkpoint, because a lock is never older.
        let lock = MemoryLock::new();
        let log_id = self.config.key.log_id().0;
        lock.create(&log_id, &self.head.note).await?;
        let shared = Shared::new(
            self.config.clone(),
            Roots::new(),
            ReadAssets::uncached(self.assets.clone()),
            Arc::new(lock),
            &Metrics::register(&mut Registry::default()),
        );
        let (dedup, from) = catchup::bring_up(&shared.index, &self.tree).await?;
        let to = dedup.known();
        // Closing the index accesses its disk.
        let closed = spawn_blocking(move || drop(dedup)).await;
        closed.map_err(|error| Fatal::Internal(error.to_string()))?;
        Ok(Indexed { from, to })
    }
}
