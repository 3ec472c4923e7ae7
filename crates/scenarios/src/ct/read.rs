//! `ct-read`: reads a log's published files at random or from end to end.
//!
//! All files are verified: checkpoints as in the monitor, hash tiles and data tiles against the
//! verified tree, issuers against their names.

mod options;
mod reader;
mod response_cache;
mod shared_state;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lucarne_load::{Note, OwnMetrics, PrepareError, Recorder, Scenario, Stop, VirtualUser};

pub use options::{Compression, CtReadOptions, ReadKind, WeightedRead, WeightedReadError};

use super::{checks, monitored_log};
use crate::connection_options::wrong;
use reader::Reader;
use shared_state::SharedState;

/// Builds the scenario, without any requests.
///
/// # Errors
/// If the options are contradictory.
pub fn build(options: CtReadOptions, seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    if options.reads.iter().all(|read| read.weight == 0) {
        return Err(wrong(
            "reads: all weights are 0; at least one must be greater",
        ));
    }
    Ok(Arc::new(CtRead(Arc::new(SharedState::new(options, seed)))))
}

struct CtRead(Arc<SharedState>);

#[async_trait]
impl Scenario for CtRead {
    fn metrics(&self) -> Option<OwnMetrics> {
        Some(&[
            ("ct_cache_hits", "counter"),
            ("ct_entries_read", "counter"),
            ("ct_full_reads", "counter"),
            ("ct_outage", "trend"),
            ("ct_outage_errors", "counter"),
            ("ct_promises_open", "gauge"),
            ("ct_proof_requests", "counter"),
            ("ct_tree_size", "gauge"),
            ("throttled", "rate"),
        ])
    }

    async fn prepare(&self) -> Result<(), PrepareError> {
        self.0.prepare().await
    }

    fn user(&self, number: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(Reader::new(Arc::clone(&self.0), number, recorder))
    }

    fn purpose(&self) -> &'static str {
        "a file of the log"
    }

    fn checks(&self) -> Option<Vec<&'static str>> {
        Some(checks::ALL.to_vec())
    }

    fn warnings(&self) -> &'static [&'static str] {
        checks::WARNINGS
    }

    fn grace(&self) -> Duration {
        // This scenario has no promises to wait for.
        monitored_log::grace(Duration::ZERO)
    }

    async fn background(&self, recorder: Recorder, stop: Stop) {
        monitored_log::follow(self.0.logs.monitored(), recorder, stop).await;
    }

    async fn finish(&self, recorder: Recorder) -> Vec<Note> {
        monitored_log::audit(self.0.logs.monitored(), recorder).await
    }
}
