//! The dedup index as evidence: the entries that the index has seen, read without lock and storage.
//! Writes nothing.

use std::path::Path;

use tokio::task::spawn_blocking;

use crate::config::LogConfig;
use crate::data::tree::TreeHead;
use crate::error::Fatal;
use crate::error::inconsistency::IndexSeen;
use crate::index::dedup::{Dedup, earlier};

/// Returns the path of the log's dedup index and the number of entries that the index has seen;
/// `None` if there is no index.
pub(crate) async fn seen(config: &LogConfig) -> Result<Option<IndexSeen>, Fatal> {
    let found = newest_seen(config).await?;
    let path = match &config.cache {
        own if own.exists() => own.clone(),
        own => earlier::directory(own),
    };
    Ok(found.map(|head| IndexSeen {
        path,
        entries: head.size,
    }))
}

/// Returns the newest tree that the dedup index has seen; `None` if there is no index.
pub(crate) async fn newest_seen(config: &LogConfig) -> Result<Option<TreeHead>, Fatal> {
    let owner = config.key.log_id();
    read(config, move |path| Dedup::look(path, owner)).await
}

/// Returns whether a process of an earlier version has the log's dedup index open.
pub(crate) async fn earlier_in_use(config: &LogConfig) -> Result<bool, Fatal> {
    read(config, earlier::is_in_use).await
}

async fn read<T: Send + 'static>(
    config: &LogConfig,
    read: impl FnOnce(&Path) -> Result<T, Fatal> + Send + 'static,
) -> Result<T, Fatal> {
    let path = config.cache.clone();
    let read = spawn_blocking(move || read(&path)).await;
    read.map_err(|error| Fatal::Internal(error.to_string()))?
}
