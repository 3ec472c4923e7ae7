//! The state that the RFC 6962 read operations of one log share.

use std::path::Path;

use super::leaves::Leaves;
use super::permits::Permits;

/// The part of a log's state for the RFC 6962 read operations.
pub(crate) struct Rfc6962 {
    /// Finds the index of a leaf by its hash.
    pub(crate) leaves: Leaves,
    pub(super) permits: Permits,
}

impl Rfc6962 {
    /// Creates the state of a log whose leaf index is in this directory.
    pub(crate) fn new(folder: &Path) -> Self {
        let permits = Permits::new();
        Rfc6962 {
            leaves: Leaves::new(folder, permits.clone()),
            permits,
        }
    }
}
