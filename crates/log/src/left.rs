//! A log as somebody else's software left it, or is still writing it: its published
//! tree, and an index made from that.
//!
//! Only what is published counts, so that it can be read beside whoever signs. What
//! a lock has signed beyond it is for the start of the log to publish.

use std::sync::Arc;

use lucarne_ct::Roots;
use lucarne_storage::{Assets, Lock, MemoryLock};
use lucarne_tlog::{Checkpoint, TILE_WIDTH};
use prometheus_client::registry::Registry;
use tokio::task::spawn_blocking;

use crate::KnownError;
use crate::known::{History, KnownCheckpoint};
use crate::shared::Shared;
use crate::tree::Tree;
use crate::verified_checkpoint::VerifiedCheckpoint;
use crate::{Fatal, LogConfig, Metrics, Published, catchup, recover};

/// The published tree of a log that others wrote.
pub struct Left {
    config: LogConfig,
    head: VerifiedCheckpoint,
    tree: Tree,
    assets: Arc<dyn Assets>,
}

/// The work of bringing an index up to a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Entries that the index knew before.
    pub from: u64,
    /// Entries that it knows now.
    pub to: u64,
}

impl Indexed {
    /// Returns the number of data tiles that were needed for it.
    pub fn tiles(&self) -> u64 {
        match self.from < self.to {
            true => self.to.div_ceil(TILE_WIDTH) - self.from / TILE_WIDTH,
            false => 0,
        }
    }
}

/// See [`Log::left`](crate::Log::left).
pub(crate) async fn left(config: LogConfig, assets: Arc<dyn Assets>) -> Result<Left, Fatal> {
    let location = assets.location();
    let head = recover::published(&config, &*assets)
        .await?
        .ok_or_else(|| {
            Fatal::Inconsistent(format!(
                "{location} publishes no checkpoint of {}",
                config.origin
            ))
        })?;
    let tree = recover::published_tree(&head, &*assets).await?;
    Ok(Left {
        config,
        head,
        tree,
        assets,
    })
}

impl Left {
    /// Its checkpoint, with the bytes that were signed.
    pub fn published(&self) -> Published {
        self.head.published()
    }

    /// Its checkpoint, as it is held against files.
    pub fn checkpoint(&self) -> Checkpoint {
        self.head.checkpoint.clone()
    }

    /// Compares it with an earlier checkpoint of the log.
    ///
    /// # Errors
    /// See [`KnownError`].
    pub async fn hold_against(&self, known: &KnownCheckpoint) -> Result<(), KnownError> {
        let history = History::new(self.assets.clone(), &self.tree.edge, Vec::new());
        history.hold_against(known).await
    }

    /// Brings the dedup index up to this tree, with the code by which the start of a
    /// log does, so that a start only has to add what came later. Writes to the
    /// log's cache alone. An index that knows more entries than these is refused.
    ///
    /// # Errors
    /// If the index is of another history, or in use, or storage does not answer.
    pub async fn index(&self) -> Result<Indexed, Fatal> {
        // The published checkpoint is what it is bound to: a lock is never behind it.
        let lock = MemoryLock::new();
        let log_id = self.config.key.log_id().0;
        lock.create(&log_id, &self.head.note).await?;
        let shared = Shared::new(
            self.config.clone(),
            Roots::new(),
            self.assets.clone(),
            Arc::new(lock),
            &Metrics::register(&mut Registry::default()),
        );
        let (dedup, from) = catchup::bring_up(&shared, &self.tree).await?;
        let to = dedup.known();
        // To close it asks its disk.
        let closed = spawn_blocking(move || drop(dedup)).await;
        closed.map_err(|error| Fatal::Internal(error.to_string()))?;
        Ok(Indexed { from, to })
    }
}
