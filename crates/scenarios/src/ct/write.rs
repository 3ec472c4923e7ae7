//! `ct-write`: submits certificates and precertificates to logs.

mod options;
mod recent_submissions;
mod shared_state;
mod write_goal;
pub(in crate::ct) mod writer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lucarne_load::{
    Failure, Note, OwnMetrics, PrepareError, Recorder, Scenario, Stop, VirtualUser,
};

pub use options::CtWriteOptions;

use super::{checks, monitored_log};
use crate::connection_options::wrong;
use shared_state::SharedState;
use write_goal::WriteGoal;
use writer::Writer;

/// Builds the scenario, without any requests or certificates.
///
/// # Errors
/// If the options are contradictory.
pub fn build(options: CtWriteOptions, seed: u64) -> Result<Arc<dyn Scenario>, PrepareError> {
    build_until(options, seed, None)
}

/// Builds the scenario. The run ends after `leaves` new leaves.
///
/// # Errors
/// If the options are contradictory.
pub fn build_until(
    options: CtWriteOptions,
    seed: u64,
    leaves: Option<u64>,
) -> Result<Arc<dyn Scenario>, PrepareError> {
    if let (Some(start), Some(limit)) = (options.not_after_start, options.not_after_limit)
        && start >= limit
    {
        return Err(wrong("notAfterStart must be before notAfterLimit"));
    }
    let goal = WriteGoal::new(leaves);
    Ok(Arc::new(CtWrite(Arc::new(SharedState::new(
        options, seed, goal,
    )))))
}

struct CtWrite(Arc<SharedState>);

#[async_trait]
impl Scenario for CtWrite {
    fn metrics(&self) -> Option<OwnMetrics> {
        Some(&[
            ("ct_accepted", "rate"),
            ("ct_minted_late", "counter"),
            ("ct_outage", "trend"),
            ("ct_outage_errors", "counter"),
            ("ct_promises_open", "gauge"),
            ("ct_retry_after", "trend"),
            ("ct_tree_size", "gauge"),
            ("throttled", "rate"),
        ])
    }

    async fn prepare(&self) -> Result<(), PrepareError> {
        self.0.prepare().await
    }

    fn user(&self, number: u64, recorder: &Recorder) -> Box<dyn VirtualUser> {
        Box::new(Writer::new(Arc::clone(&self.0), number, recorder))
    }

    fn purpose(&self) -> &'static str {
        "an SCT"
    }

    fn checks(&self) -> Option<Vec<&'static str>> {
        Some(checks::ALL.to_vec())
    }

    fn warnings(&self) -> &'static [&'static str] {
        checks::WARNINGS
    }

    fn grace(&self) -> Duration {
        monitored_log::grace(self.0.options.mmd.0)
    }

    async fn background(&self, recorder: Recorder, stop: Stop) {
        let probes = self.0.probe(&recorder, &stop);
        let follow = monitored_log::follow(self.0.logs.monitored(), recorder.clone(), stop.clone());
        tokio::join!(probes, follow);
    }

    async fn reached(&self) -> Result<(), Failure> {
        self.0.goal.reached().await;
        Ok(())
    }

    async fn finish(&self, recorder: Recorder) -> Vec<Note> {
        self.0.probe_the_rest(&recorder).await;
        if let Some(outcome) = self.0.goal.outcome() {
            recorder.check(recorder.base(), checks::LEAF_WRITE_GOAL, outcome);
        }
        monitored_log::audit(self.0.logs.monitored(), recorder).await
    }
}
