//! Reloading the configuration file (SIGHUP): logs are added and removed, and the others continue.
//!
//! The file is read in the background, with all checks of a start. A file with a problem changes
//! nothing. Otherwise, new logs are opened, and logs that are no longer in the file are drained:
//! they refuse submissions with 503, finish the round, and are closed; then their paths are
//! removed.
//!
//! Settings of the other logs and of the process stay as they are, except for the sources of roots
//! and the TLS files; a log line names each key that needs a new process.

mod changes;
mod draining;
mod reading;

use std::future::pending;
use std::iter::zip;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lucarne_ct::{LogId, Roots};
use lucarne_http::Site;
use lucarne_log::{Log, Turn};
use tokio::task::{AbortHandle, JoinHandle, JoinSet, spawn_blocking};

use self::changes::{report_log, report_process};
use self::draining::Draining;
pub(crate) use self::reading::Reading;
use self::reading::{Placement, Refusal, read, within};
use crate::config::LogSettings;
use crate::creation::{Creation, create_added};
use crate::descriptors;
use crate::files::{self, LONGEST};
use crate::hosting::{Current, Host, Hosted};

/// The reason for the check `configuration` after a reload.
const UNAPPLIED: &str =
    "the last reload did not apply the whole configuration file: its log lines have the reason";
/// The reason for the check `configuration` without a reload.
const EDITED: &str = "the configuration file has changed since the process read it: check it with \
                      `lucarne check`, and send SIGHUP";

/// Reloads the configuration file of a running server.
pub(crate) struct Reload {
    /// The configuration file; `None` if the settings are from flags.
    pub(crate) file: Option<PathBuf>,
    pub(crate) creation: Creation,
    pub(crate) host: Host,
    pub(crate) site: Arc<Site>,
    pub(crate) hosted: Current,
    pub(crate) progress: Progress,
}

/// The work of a reload that is in progress.
#[derive(Default)]
pub(crate) struct Progress {
    reading: Option<BoxFuture<'static, Option<Box<Reading>>>>,
    /// Whether another SIGHUP has come while the file was being read.
    again: bool,
    /// Whether the file has a log that waits until a removed log is closed.
    postponed: bool,
    /// Logs that are created in the background.
    creating: Vec<(LogId, AbortHandle)>,
    /// Logs that were removed and are not closed yet.
    draining: Vec<Draining>,
    closing: JoinSet<Arc<Log>>,
    /// Whether the last reload has not applied the whole file.
    failed: bool,
    /// The digest of the file, which is read to compare it with the settings of the process.
    looking: Option<JoinHandle<Option<u64>>>,
}

/// A step of a reload.
pub(crate) enum Event {
    /// The file was read; `None` if the file has problems, which were reported.
    Read(Option<Box<Reading>>),
    /// A removed log is closed.
    Closed(Arc<Log>),
}

impl Reload {
    /// Reads the file in the background. If the file is already being read, a second read follows.
    /// Returns `false` if the settings are from flags.
    pub(crate) fn begin(&mut self) -> bool {
        let Some(file) = self.file.clone() else {
            return false;
        };
        if self.progress.reading.is_some() {
            self.progress.again = true;
            return true;
        }
        let hosted = self.hosted.now();
        let draining = self.progress.draining.iter();
        let draining: Vec<_> = draining.map(|it| it.settings.clone()).collect();
        let name = file.clone();
        let reading = spawn_blocking(move || read(&file, &hosted, &draining));
        self.progress.reading = Some(Box::pin(within(LONGEST, reading, name)));
        true
    }

    /// Waits for the next step. May be dropped at any time.
    pub(crate) async fn next(&mut self) -> Event {
        let Progress {
            reading, closing, ..
        } = &mut self.progress;
        let read = async {
            match reading.as_mut() {
                Some(reading) => reading.await,
                None => pending().await,
            }
        };
        tokio::select! {
            read = read => {
                self.progress.reading = None;
                Event::Read(read)
            }
            Some(Ok(log)) = closing.join_next() => Event::Closed(log),
        }
    }

    /// Returns the logs that are not closed, including the logs that are being removed.
    pub(crate) fn logs(&self) -> Vec<Arc<Log>> {
        let mut logs = self.hosted.now().logs.clone();
        logs.extend(self.leaving());
        logs
    }

    /// Returns the reason why no other process can take the logs over now, if there is one. A
    /// creation must not continue here while the other process has the log.
    pub(crate) fn obstacle(&self) -> Option<&'static str> {
        let Progress {
            reading,
            creating,
            draining,
            ..
        } = &self.progress;
        if reading.is_some() {
            return Some("SIGHUP is being applied: start the other process again");
        }
        if creating.iter().any(|(_, creating)| !creating.is_finished()) {
            return Some(
                "a log that SIGHUP has added does not exist yet: start the other process again \
                 when the log is open, or remove the log with SIGHUP",
            );
        }
        if !draining.is_empty() {
            return Some(
                "a log that SIGHUP has removed is not closed yet: start the other process again \
                 after the log line `closed and removed`",
            );
        }
        None
    }

    /// Reads the file again if another SIGHUP has come since.
    pub(crate) fn begin_again(&mut self) {
        if std::mem::take(&mut self.progress.again) {
            self.begin();
        }
    }

    /// Compares the file with the settings of the process. Called at intervals: each call begins to
    /// read the file, and compares the result of the call before, so that a file that does not
    /// respond delays nothing.
    pub(crate) fn look_at_file(&mut self) {
        let Some(file) = self.file.clone() else {
            return;
        };
        let progress = &mut self.progress;
        if progress.reading.is_some()
            || (progress.looking.as_ref()).is_some_and(|looking| !looking.is_finished())
        {
            return;
        }
        let looking = spawn_blocking(move || files::digest_of(&file));
        let before = progress.looking.replace(looking);
        if let Some(Ok(Some(found))) = before.and_then(FutureExt::now_or_never) {
            let is_applied = self.hosted.now().config.digest == Some(found);
            self.progress.failed &= !is_applied;
            let reason = if self.progress.failed {
                UNAPPLIED
            } else {
                EDITED
            };
            self.site
                .note_configuration((!is_applied).then_some(reason));
        }
    }

    /// Records whether the last reload has applied the whole file.
    pub(crate) fn note_applied(&mut self, is_applied: bool) {
        self.progress.failed = !is_applied;
        self.progress.looking = None;
        self.site
            .note_configuration((!is_applied).then_some(UNAPPLIED));
    }

    /// Applies a file that was read. Returns whether the file names other TLS files. The caller
    /// reads these files and the roots of all logs, whose sources may have changed.
    pub(crate) async fn apply(&mut self, reading: Box<Reading>) -> bool {
        let Reading { config, placements } = *reading;
        let before = self.hosted.now();
        let mut other_tls_files = false;
        let mut effective = before.config.clone();
        effective.logs.clear();
        let mut is_unapplied = report_process(&before.config, &config);
        if let (Some(present), Some(named)) = (&mut effective.tls, &config.tls) {
            other_tls_files = present.certificate.value != named.certificate.value
                || present.key.value != named.key.value;
            present.clone_from(named);
        }
        let (mut logs, mut added) = (Vec::new(), Vec::new());
        self.progress.postponed = false;
        for (settings, placement) in zip(config.logs, placements) {
            let name = settings.shortname.value.clone();
            match placement {
                Placement::Kept(place) => {
                    let present = before.config.logs.get(place).zip(before.logs.get(place));
                    let Some((present, log)) = present else {
                        continue;
                    };
                    is_unapplied |= report_log(present, &settings);
                    effective.logs.push(LogSettings {
                        roots: settings.roots,
                        ..present.clone()
                    });
                    logs.push(Arc::clone(log));
                }
                Placement::Added(roots) => match self.open(&settings, roots).await {
                    Ok(log) => {
                        effective.logs.push(settings);
                        logs.push(Arc::clone(&log));
                        added.push(log);
                    }
                    Err(error) => {
                        is_unapplied = true;
                        tracing::error!(log = name, "not opened: {error:#}");
                    }
                },
                Placement::Refused(why) => {
                    is_unapplied = true;
                    tracing::error!(log = name, "not opened: {why}");
                    self.progress.postponed |= matches!(why, Refusal::Taken { .. });
                }
            }
        }
        effective.digest = config.digest.filter(|_| !is_unapplied);
        self.switch(
            &before,
            Hosted {
                config: effective,
                logs,
            },
            &added,
        );
        self.note_applied(!is_unapplied);
        other_tls_files
    }

    /// Serves `after` instead of `before`, and drains the logs that `after` does not have.
    fn switch(&mut self, before: &Hosted, after: Hosted, added: &[Arc<Log>]) {
        let removed: Vec<_> = before
            .each()
            .filter(|(_, log)| !after.logs.iter().any(|kept| Arc::ptr_eq(kept, log)))
            .map(|(settings, log)| (settings.clone(), Arc::clone(log)))
            .collect();
        tracing::info!(
            added = added.len(),
            removed = removed.len(),
            kept = after.logs.len() - added.len(),
            "SIGHUP: configuration applied"
        );
        descriptors::check_connections(&after.config);
        self.hosted.replace(after);
        for (settings, log) in removed {
            self.drain(settings, log);
        }
        self.serve_logs();
    }

    /// Opens a log that the file has and the process does not.
    ///
    /// # Errors
    /// If the process cannot listen on the log's address for other instances.
    async fn open(&mut self, settings: &LogSettings, roots: Roots) -> anyhow::Result<Arc<Log>> {
        self.host.listen(settings).await?;
        let (give, turn) = Turn::later();
        let log = self.host.start(settings, roots, &turn);
        self.host.instances.serve();
        let place = self.hosted.now().config.checkpoints.value.clone();
        let lock = Arc::clone(&self.host.lock);
        let creating = create_added(settings.clone(), self.creation, place, lock, give);
        let creating = tokio::spawn(creating).abort_handle();
        self.progress.creating.retain(|(_, it)| !it.is_finished());
        let id = settings.key.log_id();
        self.progress.creating.push((id, creating));
        tracing::info!(log = settings.shortname.value, "added");
        Ok(log)
    }

    /// Serves the present logs, and the logs that are being removed.
    fn serve_logs(&self) {
        let logs = self.hosted.now().logs.clone();
        if let Err(error) = self.site.replace_logs(logs, self.leaving()) {
            // The prefixes were compared when the file was read.
            tracing::error!("SIGHUP: the paths of the logs stay as they were: {error}");
        }
    }
}
