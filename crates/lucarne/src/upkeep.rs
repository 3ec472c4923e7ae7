//! The work that a server does beside serving.

use std::sync::Arc;
use std::time::Duration;

use lucarne_http::Tls;
use lucarne_log::Log;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at};

use crate::config::{Config, LogSettings, Report};
use crate::handover::{Candidate, Candidates};
use crate::roots::{self, Purpose};
use crate::signals::{Signals, Wish};
use crate::{notify, successor, tls};

/// The time between two looks for changed TLS files.
const WATCH_TLS: Duration = Duration::from_secs(2);
/// The time after which CCADB is asked again for new roots.
const WATCH_CCADB: Duration = Duration::from_secs(15 * 60);

/// The time after which CCADB's roots are requested again for a log that lacks them.
const AWAIT_CCADB: Duration = Duration::from_secs(5);

/// The work that is done beside serving.
pub(crate) struct Upkeep {
    pub(crate) config: Arc<Config>,
    pub(crate) logs: Vec<Arc<Log>>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) tls_watch: tls::Watch,
    /// True if SIGHUP means that nobody watches any more: the demo.
    pub(crate) terminal: bool,
}

/// The things that end or interrupt serving.
pub(crate) enum Wanted {
    /// A stop.
    Stop,
    /// The logs, by another process.
    Logs(Candidate),
}

impl Upkeep {
    /// Rereads what changes until a signal asks to stop, or another process for the logs.
    pub(crate) async fn until_wanted(
        &mut self,
        signals: &mut Signals,
        mut candidates: Option<&mut Candidates>,
    ) -> Wanted {
        let mut look_at_tls = tokio::time::interval(WATCH_TLS);
        // At once for the first time: a start goes on with the roots that it remembers.
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
                        tracing::info!("SIGHUP: the terminal is gone, finishing the round");
                        return Wanted::Stop;
                    }
                    Wish::Reread => {
                        tracing::info!("SIGHUP: reading roots and TLS files again");
                        notify::reloading();
                        let reading = self.reread_roots(|_| true);
                        self.reread_tls();
                        notify::reloaded_after(reading);
                    }
                    Wish::Successor => match self.config.handover {
                        Some(_) => successor::start(),
                        None => tracing::error!(
                            "SIGUSR2: without `handover` in the configuration, nothing can be handed over"
                        ),
                    },
                },
                candidate = candidate => return Wanted::Logs(candidate),
                _ = look_at_tls.tick() => if self.tls_watch.changed() {
                    self.reread_tls();
                },
                _ = ask_ccadb.tick() => drop(self.reread_roots(|log| log.roots.ccadb.is_some())),
                _ = ask_again.tick() => self.read_awaited_roots(&mut asking),
            }
        }
    }

    /// Reads roots again, in the tasks that it returns.
    fn reread_roots(&self, which: impl Fn(&LogSettings) -> bool) -> Vec<JoinHandle<()>> {
        let mut reading = Vec::new();
        for (place, log) in self.logs.iter().enumerate() {
            if which(&self.config.logs[place]) {
                let (config, log) = (Arc::clone(&self.config), Arc::clone(log));
                let read = move || reread(&config.logs[place], &log);
                reading.push(tokio::task::spawn_blocking(read));
            }
        }
        reading
    }

    /// Reads the roots of logs that lack CCADB's, one attempt at a time.
    fn read_awaited_roots(&self, asking: &mut Option<JoinHandle<()>>) {
        let is_asking = asking.as_ref().is_some_and(|asking| !asking.is_finished());
        if is_asking || !self.logs.iter().any(|log| log.awaits_roots()) {
            return;
        }
        let (config, logs) = (Arc::clone(&self.config), self.logs.clone());
        *asking = Some(tokio::task::spawn_blocking(move || {
            let logs = config.logs.iter().zip(&logs);
            for (settings, log) in logs.filter(|(_, log)| log.awaits_roots()) {
                reread(settings, log);
            }
        }));
    }

    fn reread_tls(&self) {
        let Some((files, tls)) = self.config.tls.as_ref().zip(self.tls.as_ref()) else {
            return;
        };
        match tls::reload(tls, &files.certificate.value, &files.key.value) {
            Ok(()) => {
                tracing::info!(certificate = %files.certificate.value.display(), "TLS files read");
            }
            Err(error) => {
                tracing::error!("{error:#}; the old certificate goes on being served");
            }
        }
    }
}

/// Reads the roots of one log again. If there is a problem with them, it keeps
/// those it has.
fn reread(settings: &LogSettings, log: &Log) {
    let mut report = Report::on(None);
    let roots = roots::load(settings, Purpose::Renew, &mut report);
    for line in report.warning_lines() {
        tracing::warn!("{line}");
    }
    for line in report.problem_lines() {
        tracing::error!("{line}; the roots stay as they were");
    }
    if !report.problems().is_empty() {
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
