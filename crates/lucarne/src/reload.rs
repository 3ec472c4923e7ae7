//! Reloading the configuration file (SIGHUP): logs are added and removed, and the others continue.
//!
//! The file is read in the background, with all checks of a start. A file with a problem changes
//! nothing. Otherwise, new logs are opened, and logs that are no longer in the file are drained:
//! they refuse submissions with 503, finish the round, and are closed; then their paths are
//! removed.
//!
//! Settings of the other logs and of the process stay as they are, except for the sources of roots
//! and the TLS files; a log line names each key that needs a new process.

use std::future::pending;
use std::iter::zip;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lucarne_ct::{LogId, Roots};
use lucarne_http::Site;
use lucarne_log::{Log, Turn};
use tokio::task::{AbortHandle, JoinHandle, JoinSet, spawn_blocking};
use tokio::time::timeout;

use crate::config::{Config, LogSettings, Report, shared_by_logs};
use crate::creation::{Creation, create_added};
use crate::hosting::{Current, Host, Hosted};
use crate::roots::{self, Purpose};
use crate::{server, survey};

/// The keys of a log that are applied without a new process.
const ROOTS: [&str; 5] = [
    "roots",
    "ccadbroots",
    "extraroots",
    "rootsurl",
    "refusedroots",
];

/// The keys that name the lock. New logs must not be opened with another lock than the others.
const LOCK: [&str; 2] = ["checkpoints", "checkpointspassword"];

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
    reading: Option<JoinHandle<Option<Box<Reading>>>>,
    /// Whether another SIGHUP has come while the file was being read.
    again: bool,
    /// Logs that are created in the background.
    creating: Vec<(LogId, AbortHandle)>,
    /// Logs that were removed and are not closed yet.
    draining: Vec<Draining>,
    closing: JoinSet<Arc<Log>>,
}

/// A log that was removed and is not closed yet.
struct Draining {
    settings: LogSettings,
    log: Arc<Log>,
}

/// A configuration file that was read without a problem.
pub(crate) struct Reading {
    config: Config,
    /// The placement of each log of the file.
    placements: Vec<Placement>,
}

/// The placement of a log of the file.
enum Placement {
    /// The log at this place of the present configuration.
    Kept(usize),
    /// A new log, with its accepted roots.
    Added(Roots),
    /// A new log that cannot be opened beside the present logs, with the reason.
    Refused(String),
}

/// A step of a reload.
pub(crate) enum Event {
    /// The file was read; `None` if it has problems, which were reported.
    Read(Option<Box<Reading>>),
    /// A removed log is closed.
    Closed(Arc<Log>),
}

impl Reload {
    /// Reads the file in the background. If the file is already being read, it is read again
    /// afterwards. Returns `false` if the settings are from flags.
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
        let reading = spawn_blocking(move || read(&file, &hosted, &draining));
        self.progress.reading = Some(reading);
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
                Event::Read(read.unwrap_or_else(|error| {
                    tracing::error!("SIGHUP: the configuration was not read: {error}");
                    None
                }))
            }
            Some(Ok(log)) = closing.join_next() => Event::Closed(log),
        }
    }

    /// Returns the logs that are not closed, also those that are being removed.
    pub(crate) fn logs(&self) -> Vec<Arc<Log>> {
        let mut logs = self.hosted.now().logs.clone();
        logs.extend(self.leaving());
        logs
    }

    /// Returns the logs that are being removed.
    fn leaving(&self) -> Vec<Arc<Log>> {
        let draining = self.progress.draining.iter();
        draining.map(|it| Arc::clone(&it.log)).collect()
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

    /// Applies a file that was read. Returns whether the file names other TLS files. The caller
    /// reads these files and the roots of all logs, whose sources may have changed.
    pub(crate) async fn apply(&mut self, reading: Box<Reading>) -> bool {
        let Reading { config, placements } = *reading;
        let before = self.hosted.now();
        let mut other_tls_files = false;
        let mut effective = before.config.clone();
        effective.logs.clear();
        report_process(&before.config, &config);
        if let (Some(present), Some(named)) = (&mut effective.tls, &config.tls) {
            other_tls_files = present.certificate.value != named.certificate.value
                || present.key.value != named.key.value;
            present.clone_from(named);
        }
        let (mut logs, mut added) = (Vec::new(), Vec::new());
        for (settings, placement) in zip(config.logs, placements) {
            let name = settings.shortname.value.clone();
            match placement {
                Placement::Kept(place) => {
                    let present = before.config.logs.get(place).zip(before.logs.get(place));
                    let Some((present, log)) = present else {
                        continue;
                    };
                    report_log(present, &settings);
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
                    Err(error) => tracing::error!(log = name, "not opened: {error:#}"),
                },
                Placement::Refused(why) => tracing::error!(log = name, "not opened: {why}"),
            }
        }
        self.switch(
            &before,
            Hosted {
                config: effective,
                logs,
            },
            &added,
        );
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
        server::check_connections(&after.config);
        self.hosted.replace(after);
        for (settings, log) in removed {
            self.drain(settings, log);
        }
        self.serve_logs();
    }

    /// Opens a log that the file has and the process does not.
    ///
    /// # Errors
    /// If its address for other instances cannot be listened on.
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

    /// Closes a log in the background that the file no longer has.
    fn drain(&mut self, settings: LogSettings, log: Arc<Log>) {
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

    /// Removes the paths and the metrics of a log that is closed.
    pub(crate) fn remove(&mut self, log: &Arc<Log>) {
        let draining = &mut self.progress.draining;
        draining.retain(|draining| !Arc::ptr_eq(&draining.log, log));
        self.serve_logs();
        self.host.forget(log);
        tracing::info!(log = log.config().shortname, "closed and removed");
    }

    /// Serves the present logs, and those that are being removed.
    fn serve_logs(&self) {
        let logs = self.hosted.now().logs.clone();
        if let Err(error) = self.site.replace_logs(logs, self.leaving()) {
            // The prefixes were compared when the file was read.
            tracing::error!("SIGHUP: the paths of the logs stay as they were: {error}");
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
             closed when they do"
        );
        shutdown.await;
    }
    if let Err(error) = log.let_go().await {
        tracing::error!(log = name, %error, "the storage is not released");
    }
}

/// Reads the file with all checks of a start, and reports its problems.
fn read(file: &Path, hosted: &Hosted, draining: &[LogSettings]) -> Option<Box<Reading>> {
    let (config, mut report) = Config::read(file);
    let placements = config
        .as_ref()
        .map(|config| place(config, hosted, draining, &mut report));
    if let Some(config) = &config {
        survey::certificate(config, lucarne_mint::now_ms(), &mut report);
    }
    for line in report.warning_lines() {
        tracing::warn!("{line}");
    }
    match (config, placements, report.problems()) {
        (Some(config), Some(placements), []) => Some(Box::new(Reading { config, placements })),
        _ => {
            for line in report.problem_lines() {
                tracing::error!("{line}");
            }
            tracing::error!(
                "SIGHUP: the configuration is invalid, and nothing was changed: correct it and \
                 send SIGHUP again"
            );
            None
        }
    }
}

/// Returns the placement of each log of the file.
fn place(
    config: &Config,
    hosted: &Hosted,
    draining: &[LogSettings],
    report: &mut Report,
) -> Vec<Placement> {
    let changed = hosted.config.written.changed(&config.written);
    let other_lock = LOCK.into_iter().find(|key| changed.contains(key));
    let present = hosted.config.logs.iter();
    let mut placements = Vec::new();
    for (log, kept) in zip(&config.logs, matched(&config.logs, &hosted.config.logs)) {
        let taken = || {
            let mut others = present.clone().chain(draining);
            others.find_map(|other| Some((other, shared_by_logs(log, other)?)))
        };
        placements.push(match (kept, other_lock) {
            (Some(place), _) => Placement::Kept(place),
            (None, Some(key)) => Placement::Refused(format!(
                "`{key}` has changed, and a log must not be opened with the old lock: restart, or \
                 send SIGUSR2"
            )),
            (None, None) => match taken() {
                Some((other, key)) => Placement::Refused(format!(
                    "its `{key}` is that of log `{}`, which this process still has: send SIGHUP \
                     again when that log is closed",
                    other.shortname.value
                )),
                None => Placement::Added(roots::load(log, Purpose::Start, report)),
            },
        });
    }
    placements
}

/// Returns the place of the present log for each log of the file: the log with the same key, or
/// else with the same name.
fn matched(file: &[LogSettings], present: &[LogSettings]) -> Vec<Option<usize>> {
    let by_key = file.iter().map(|log| {
        let id = log.key.log_id();
        present.iter().position(|other| other.key.log_id() == id)
    });
    let mut places: Vec<_> = by_key.collect();
    for (index, log) in file.iter().enumerate() {
        let name = &log.shortname.value;
        let same = present.iter().position(|it| it.shortname.value == *name);
        if places[index].is_none() && !places.contains(&same) {
            places[index] = same;
        }
    }
    places
}

/// Reports changed settings of the process that need a new process.
fn report_process(present: &Config, file: &Config) {
    let mut changed = present.written.changed(&file.written);
    // A reload reads other TLS files, but cannot enable or disable TLS.
    if present.tls.is_some() == file.tls.is_some() {
        changed.retain(|key| *key != "tls");
    }
    if !changed.is_empty() {
        tracing::warn!(
            keys = changed.join(", "),
            "SIGHUP: settings have changed that are not applied: restart or send SIGUSR2 to apply \
             them"
        );
    }
}

/// Reports changed settings of a log that need a new process.
fn report_log(present: &LogSettings, file: &LogSettings) {
    let mut changed = present.written.changed(&file.written);
    changed.retain(|key| !ROOTS.contains(key));
    if !changed.is_empty() {
        tracing::warn!(
            log = present.shortname.value,
            keys = changed.join(", "),
            "SIGHUP: settings of the log have changed that are not applied: restart or send \
             SIGUSR2 to apply them"
        );
    }
}

#[cfg(test)]
mod tests {
    use lucarne_mint::testing::Pki;

    use super::*;

    /// A configuration with this lock and these logs, each with a key of its own.
    fn config(directory: &Path, lock: &str, logs: &[&str]) -> Config {
        let mut yaml = format!("listen: 127.0.0.1:80\ncheckpoints: {lock}\nlogs:\n");
        let roots = Pki::shared().roots_pem();
        std::fs::write(directory.join("roots.pem"), roots).unwrap();
        for name in logs {
            let mut seed = name.as_bytes().to_vec();
            seed.resize(32, b'.');
            std::fs::write(directory.join(format!("{name}.seed")), seed).unwrap();
            yaml += &format!(
                "  - shortname: {name}\n    submissionprefix: http://127.0.0.1/{name}\n    \
                 secret: {name}.seed\n    localdirectory: {name}\n    roots: roots.pem\n"
            );
        }
        let mut report = Report::on(None);
        let config = Config::parse(&yaml, directory, &mut report);
        assert_eq!(report.problem_lines(), [""; 0]);
        config.unwrap()
    }

    fn placed(file: &Config, present: &Hosted, draining: &[LogSettings]) -> Vec<Placement> {
        place(file, present, draining, &mut Report::on(None))
    }

    #[test]
    fn a_new_log_needs_the_same_lock_and_places_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let read = |lock, logs: &[&str]| config(directory.path(), lock, logs);
        let present = Hosted {
            config: read("lock.db", &["first", "second"]),
            logs: Vec::new(),
        };
        let draining = read("lock.db", &["removed"]).logs;
        let file = read("lock.db", &["new", "removed", "second"]);
        let places = placed(&file, &present, &draining);
        assert!(matches!(places[0], Placement::Added(_)));
        let Placement::Refused(why) = &places[1] else {
            panic!("a log is opened while its directory is in use");
        };
        assert!(why.contains("that of log `removed`"), "{why}");
        assert!(matches!(places[2], Placement::Kept(1)));
        let places = placed(&read("other.db", &["first", "new"]), &present, &[]);
        assert!(matches!(places[0], Placement::Kept(0)));
        let Placement::Refused(why) = &places[1] else {
            panic!("a log is opened with another lock");
        };
        assert!(why.contains("`checkpoints` has changed"), "{why}");
    }

    #[test]
    fn a_log_is_recognised_by_its_key_or_else_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let read = |logs: &[&str]| config(directory.path(), "lock.db", logs).logs;
        let present = read(&["first", "second"]);
        let mut renamed = read(&["third", "second", "first"]);
        // The key of the first log, and the name of the second one.
        renamed[2].shortname.value = "second".to_owned();
        renamed[1].key = read(&["fourth"])[0].key.clone();
        let places = matched(&renamed, &present);
        assert_eq!(places, [None, Some(1), Some(0)]);
    }
}
