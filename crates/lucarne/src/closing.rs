//! Shutdown of all logs of a process.

use std::sync::Arc;
use std::time::Duration;

use lucarne_log::Log;

/// Closes all logs concurrently. Returns the names of the logs that did not close in time.
pub(crate) async fn close(logs: &[Arc<Log>], time: Duration) -> Vec<String> {
    let until = tokio::time::Instant::now() + time;
    let closing: Vec<_> = logs
        .iter()
        .map(|log| {
            let closed = Arc::clone(log);
            (log, tokio::spawn(async move { closed.shutdown().await }))
        })
        .collect();
    let mut late = Vec::new();
    for (log, closing) in closing {
        if !matches!(tokio::time::timeout_at(until, closing).await, Ok(Ok(()))) {
            late.push(log.config().shortname.clone());
        }
    }
    late
}
