//! The wait for iterations at the end of a scenario.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::scenario_state::{Adjustments, StopMode};

/// Waits for the tasks, for `patience` at most or until a stop wants it quicker;
/// then cuts them off.
pub(crate) async fn drain(
    adjustments: &mut watch::Receiver<Adjustments>,
    tasks: &mut JoinSet<()>,
    patience: Duration,
) {
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = all => {}
        // The scenario's `gracefulStop`.
        () = tokio::time::sleep(patience) => {}
        _ = adjustments.wait_for(|adjustments| adjustments.stop == StopMode::Now) => {}
    }
    tasks.shutdown().await;
}
