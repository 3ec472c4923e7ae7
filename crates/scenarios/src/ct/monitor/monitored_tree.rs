//! The verified tree of a monitor, and the time of its checkpoint.

use std::sync::Arc;

use lucarne_ctread::VerifiedTree;
use lucarne_tlog::{Hash, RightEdge};

use crate::ct::checks::{self, CheckSink};

/// The verified tree of a monitor. Readers of the log share its tiles.
#[derive(Debug)]
pub(super) struct MonitoredTree {
    pub(super) tiles: Arc<VerifiedTree>,
    /// Timestamp of the verified tree's checkpoint.
    timestamp: u64,
}

impl MonitoredTree {
    pub(super) fn new(tiles: Arc<VerifiedTree>, timestamp: u64) -> Self {
        Self { tiles, timestamp }
    }

    pub(super) fn size(&self) -> u64 {
        self.tiles.edge().size()
    }

    /// Extends the tree by `leaves` to `edge`, which a checkpoint with this timestamp has signed.
    pub(super) fn extend(&mut self, edge: RightEdge, leaves: &[Hash], timestamp: u64) {
        self.timestamp = timestamp;
        self.tiles.extend(edge, leaves);
    }

    /// Checks that the checkpoint of the verified tree is as new as the data that it covers.
    pub(super) fn not_older(
        &self,
        timestamp: u64,
        what: impl Fn() -> String,
        sink: &dyn CheckSink,
    ) {
        let outcome = if timestamp <= self.timestamp {
            Ok(())
        } else {
            Err(format!(
                "the checkpoint of size {} is from {}, and covers {} from {timestamp}",
                self.size(),
                self.timestamp,
                what()
            ))
        };
        sink.check(checks::CHECKPOINT_TIMESTAMP, outcome);
    }
}
