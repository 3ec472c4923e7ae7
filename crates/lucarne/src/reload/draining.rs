//! Logs that a reload removes.

use std::sync::Arc;
use std::time::Duration;

use lucarne_log::Log;
use tokio::time::timeout;

use super::Reload;
use crate::config::LogSettings;

/// A log that was removed and is not closed yet.
pub(super) struct Draining {
    pub(super) settings: LogSettings,
    pub(super) log: Arc<Log>,
}

impl Reload {
    /// Returns the logs that are being removed.
    pub(super) fn leaving(&self) -> Vec<Arc<Log>> {
        let draining = self.progress.draining.iter();
        draining.map(|it| Arc::clone(&it.log)).collect()
    }

    /// Closes a log that the file no longer has, in the background.
    pub(super) fn drain(&mut self, settings: LogSettings, log: Arc<Log>) {
        let id = settings.key.log_id();
        for (_, creating) in self.progress.creating.iter().filter(|(it, _)| *it == id) {
            creating.abort();
        }
        tracing::info!(
            log = settings.shortname.value,
            "removed: taking no more submissions, finishing the round"
        );
        let patience = self.hosted.now().config.http.drain_timeout;
        let closing = Arc::clone(&log);
        self.progress.closing.spawn(async move {
            shut_down(&closing, patience).await;
            closing
        });
        self.progress.draining.push(Draining { settings, log });
    }

    /// Removes the paths and the metrics of a log that is closed. Reads the file again if the file
    /// has a log that waits for this, or if a reading began before.
    pub(crate) fn remove(&mut self, log: &Arc<Log>) {
        let draining = &mut self.progress.draining;
        draining.retain(|draining| !Arc::ptr_eq(&draining.log, log));
        self.serve_logs();
        self.host.forget(log);
        tracing::info!(log = log.config().shortname, "closed and removed");
        if self.progress.postponed || self.progress.reading.is_some() {
            self.begin();
        }
    }
}

/// Finishes the round of a log, responds to its waiting clients, and releases its storage.
async fn shut_down(log: &Log, patience: Duration) {
    let name = &log.config().shortname;
    let mut shutdown = Box::pin(log.shutdown());
    if timeout(patience, &mut shutdown).await.is_err() {
        tracing::warn!(
            log = name,
            "not closed within `draintimeout`: its lock or storage does not respond; the log is \
             closed when they respond"
        );
        shutdown.await;
    }
    if let Err(error) = log.let_go().await {
        tracing::error!(log = name, %error, "the storage is not released");
    }
}
