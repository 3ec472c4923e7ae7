//! The state that the RFC 6962 read operations of one log share.

use std::path::Path;
use std::sync::Arc;

use super::leaves::Leaves;
use super::permits::Permits;
use crate::config::LogConfig;
use crate::read::reader::Reader;

/// The part of a log's state for the RFC 6962 read operations.
pub(crate) struct Rfc6962 {
    pub(super) config: Arc<LogConfig>,
    pub(super) reader: Arc<Reader>,
    /// Finds the index of a leaf by its hash.
    pub(super) leaves: Leaves,
    pub(super) permits: Permits,
}

impl Rfc6962 {
    /// Creates the state of a log whose leaf index is in this directory.
    pub(crate) fn new(folder: &Path, config: Arc<LogConfig>, reader: Arc<Reader>) -> Self {
        let permits = Permits::new();
        Rfc6962 {
            config,
            reader,
            leaves: Leaves::new(folder, permits.clone()),
            permits,
        }
    }
}
