//! Waiting for iterations at the end of a scenario.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::scenario_state::{Adjustments, StopMode};

/// Waits for the tasks up to `patience`, or until the run is stopped at once; then aborts the rest.
pub(crate) async fn drain(
    adjustments: &mut watch::Receiver<Adjustments>,
    tasks: &mut JoinSet<()>,
    patience: Duration,
) {
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = all => {}
        // `patience` is the `gracefulStop` of the scenario.
        () = tokio::time::sleep(patience) => {}
        _ = adjustments.wait_for(|adjustments| adjustments.stop == StopMode::Now) => {}
    }
    tasks.shutdown().await;
}
