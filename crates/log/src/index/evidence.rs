//! The dedup index as evidence: the entries that the index has seen, read without lock and storage.

use tokio::task::spawn_blocking;

use crate::config::LogConfig;
use crate::error::Fatal;
use crate::error::inconsistency::IndexSeen;
use crate::index::dedup::Dedup;

/// Returns the path of the log's dedup index and the number of entries that the index has seen;
/// `None` if there is no index.
pub(crate) async fn seen(config: &LogConfig) -> Result<Option<IndexSeen>, Fatal> {
    let found = indexed(config).await?;
    Ok(found.map(|entries| IndexSeen {
        path: config.cache.clone(),
        entries,
    }))
}

/// Returns the number of entries that the dedup index has seen; `None` if there is no index.
pub(crate) async fn indexed(config: &LogConfig) -> Result<Option<u64>, Fatal> {
    let (path, owner) = (config.cache.clone(), config.key.log_id());
    let found = spawn_blocking(move || Dedup::look(&path, owner)).await;
    found.map_err(|error| Fatal::Internal(error.to_string()))?
}
