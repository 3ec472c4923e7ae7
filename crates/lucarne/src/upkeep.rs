//! The work of a server beside serving: signals, roots, TLS files, reloads.

use std::sync::Arc;
use std::time::Duration;

use lucarne_http::Tls;
use lucarne_log::Log;
use parking_lot::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, interval_at};

use crate::config::{LogSettings, Report};
use crate::handover::{Candidate, Candidates};
use crate::hosting::{Current, Hosted};
use crate::reload::{Event, Reading, Reload};
use crate::roots::{self, Purpose};
use crate::signals::{Signals, Wish};
use crate::witness_service::Lists;
use crate::{notify, successor, tls};

/// The time between two comparisons of the configuration file and the TLS files.
const WATCH_FILES: Duration = Duration::from_secs(2);
/// The time between two requests for CCADB's roots.
const WATCH_CCADB: Duration = Duration::from_secs(15 * 60);

/// The time between two requests for CCADB's roots while a log lacks them.
const AWAIT_CCADB: Duration = Duration::from_secs(5);

/// Handles signals, and rereads the configuration file, roots and TLS files.
pub(crate) struct Upkeep {
    /// The logs, which a reload replaces.
    pub(crate) hosted: Current,
    /// Reloads the configuration file.
    pub(crate) reload: Reload,
    /// The log lists of the witness.
    pub(crate) lists: Option<Lists>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) tls_watch: Arc<Mutex<tls::Watch>>,
    /// Whether SIGHUP means that the terminal was closed, as in the demo.
    pub(crate) terminal: bool,
}

/// The events that end or interrupt serving.
pub(crate) enum Wanted {
    /// A signal to stop.
    Stop,
    /// Another process that requests the logs.
    Logs(Candidate),
}

impl Upkeep {
    /// Keeps the server up to date until a signal to stop, or until another process requests
    /// the logs.
    pub(crate) async fn until_wanted(
        &mut self,
        signals: &mut Signals,
        mut candidates: Option<&mut Candidates>,
    ) -> Wanted {
        let mut look_at_files = tokio::time::interval(WATCH_FILES);
        // The first tick is immediate, because a start uses only cached roots of CCADB.
        let mut ask_ccadb = tokio::time::interval(WATCH_CCADB);
        let mut ask_again = interval_at(Instant::now() + AWAIT_CCADB, AWAIT_CCADB);
        let mut asking = None;
        loop {
            let candidate = async {
                match candidates.as_deref_mut() {
                    Some(candidates) => candidates.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                wish = signals.next() => match wish {
                    Wish::Stop(name) => {
                        tracing::info!("{name}: taking no more submissions, finishing the round");
                        return Wanted::Stop;
                    }
                    Wish::Reread if self.terminal => {
                        tracing::info!("SIGHUP: the terminal was closed, finishing the round");
                        return Wanted::Stop;
                    }
                    Wish::Reread => {
                        tracing::info!("SIGHUP: reading the configuration, roots and TLS files");
                        notify::reloading();
                        // Other files are read after this one, which may name other sources.
                        if !self.reload.begin() {
                            self.reread_files();
                        }
                    }
                    Wish::Successor => match self.hosted.now().config.handover {
                        Some(_) => successor::start(),
                        None => tracing::error!(
                            "SIGUSR2: logs cannot be handed over without `handover` in the \
                             configuration"
                        ),
                    },
                },
                event = self.reload.next() => match event {
                    Event::Read(reading) => self.apply(reading).await,
                    Event::Closed(log) => self.reload.remove(&log),
                },
                candidate = candidate => return Wanted::Logs(candidate),
                _ = look_at_files.tick() => {
                    self.look_at_tls();
                    self.reload.look_at_file();
                }
                _ = ask_ccadb.tick() => drop(self.reread_roots(|log| log.roots.ccadb.is_some())),
                _ = ask_again.tick() => self.read_awaited_roots(&mut asking),
            }
        }
    }

    /// Applies a configuration file that was read, and reads the roots and TLS files again, even if
    /// the configuration file has a problem.
    async fn apply(&mut self, reading: Option<Box<Reading>>) {
        match reading {
            Some(reading) => {
                if self.reload.apply(reading).await {
                    let files = self.hosted.now().config.tls_files();
                    self.tls_watch = Arc::new(Mutex::new(tls::Watch::unread(files)));
                }
            }
            None => self.reload.note_applied(false),
        }
        self.reread_files();
        self.reload.begin_again();
    }

    /// Reads roots and TLS files again in the background. A file that does not respond delays only
    /// the notification of the service manager.
    fn reread_files(&self) {
        if let Some(lists) = &self.lists {
            lists.reread();
        }
        let mut reading = self.reread_roots(|_| true);
        if let Some(tls) = self.tls.clone() {
            let hosted = self.hosted.now();
            reading.push(spawn_blocking(move || reread_tls(&hosted, &tls)));
        }
        notify::reloaded_after(reading);
    }

    /// Reads the TLS files again in the background if they have changed.
    fn look_at_tls(&self) {
        let Some(tls) = self.tls.clone() else { return };
        let (watch, hosted) = (Arc::clone(&self.tls_watch), self.hosted.now());
        spawn_blocking(move || {
            // The previous comparison may still wait for a file.
            if watch.try_lock().is_some_and(|mut watch| watch.changed()) {
                reread_tls(&hosted, &tls);
            }
        });
    }

    /// Reads the roots of the chosen logs again in the background. Returns the tasks.
    fn reread_roots(&self, which: impl Fn(&LogSettings) -> bool) -> Vec<JoinHandle<()>> {
        let hosted = self.hosted.now();
        let mut reading = Vec::new();
        for (settings, log) in hosted.each() {
            if which(settings) {
                let (settings, log) = (settings.clone(), Arc::clone(log));
                let (current, known) = (self.hosted.clone(), Arc::clone(&hosted));
                let read = move || reread(&settings, &log, (&current, &known));
                reading.push(spawn_blocking(read));
            }
        }
        reading
    }

    /// Reads the roots of logs that have no roots of CCADB yet, one attempt at a time.
    fn read_awaited_roots(&self, asking: &mut Option<JoinHandle<()>>) {
        let is_asking = asking.as_ref().is_some_and(|asking| !asking.is_finished());
        let hosted = self.hosted.now();
        if is_asking || !hosted.logs.iter().any(|log| log.awaits_roots()) {
            return;
        }
        let current = self.hosted.clone();
        *asking = Some(spawn_blocking(move || {
            for (settings, log) in hosted.each().filter(|(_, log)| log.awaits_roots()) {
                reread(settings, log, (&current, &hosted));
            }
        }));
    }
}

fn reread_tls(hosted: &Hosted, tls: &Tls) {
    let Some(files) = &hosted.config.tls else {
        return;
    };
    let certificate = &files.certificate.value;
    match tls::reload(tls, certificate, &files.key.value) {
        Ok(()) => tracing::info!(certificate = %certificate.display(), "TLS files read"),
        Err(error) => tracing::error!("{error:#}; the old certificate stays in use"),
    }
}

/// Reads the roots of one log again. If a source has a problem, the log keeps its present roots.
/// The result is dropped if a reload has replaced the `known` logs since: the reload has begun to
/// read the roots again, perhaps from other sources.
fn reread(settings: &LogSettings, log: &Log, (current, known): (&Current, &Arc<Hosted>)) {
    let mut report = Report::on(None);
    let roots = roots::load(settings, Purpose::Renew, &mut report);
    for line in report.warning_lines() {
        tracing::warn!("{line}");
    }
    for line in report.problem_lines() {
        tracing::error!("{line}; the roots stay as they were");
    }
    if !report.problems().is_empty() || !Arc::ptr_eq(&current.now(), known) {
        return;
    }
    if log.roots().same_as(&roots) {
        log.await_roots(false);
        return;
    }
    tracing::info!(
        log = settings.shortname.value,
        roots = roots.len(),
        "roots read"
    );
    log.set_roots(roots);
    log.await_roots(false);
}
