//! The state that the reads of RFC 6962 of one log share.

use std::path::Path;

use super::leaves::Leaves;
use super::permits::Permits;

/// The part of a log's state that these reads have.
pub(crate) struct Rfc6962 {
    /// The way from a leaf's hash to its index.
    pub(crate) leaves: Leaves,
    pub(super) permits: Permits,
}

impl Rfc6962 {
    /// One whose index is in this directory.
    pub(crate) fn new(folder: &Path) -> Self {
        let permits = Permits::new();
        Rfc6962 {
            leaves: Leaves::new(folder, permits.clone()),
            permits,
        }
    }
}
