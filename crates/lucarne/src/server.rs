//! A running Lucarne: the lock, the logs, the listeners, and what signals do
//! to them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lucarne_ct::Roots;
use lucarne_http::{Listener, Site, Tls};
use lucarne_log::{Log, Metrics};
use lucarne_storage::Lock;
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use crate::config::{Config, LogSettings, Report};
use crate::describe;
use crate::inception::{self, Birth};
use crate::listen;
use crate::logging::Logging;
use crate::open::LateAssets;
use crate::roots::{self, Remember};
use crate::signals::{Signals, Wish};
use crate::{commands, runtime, survey, tls};

/// How often changed TLS files are looked for.
const WATCH_TLS: Duration = Duration::from_secs(2);
/// How often CCADB is asked for new roots.
const WATCH_CCADB: Duration = Duration::from_secs(24 * 3600);

/// When a log that does not exist may be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    /// On its inception day, as a configuration file says.
    OnInception,
    /// With its lock database, in a directory that is empty or not there:
    /// flags alone.
    InFreshDirectory,
    /// Never: all there is to create has been created, by the demo.
    Done,
}

/// Lock, logs and listeners, ready to serve.
pub(crate) struct Server {
    config: Config,
    logs: Vec<Arc<Log>>,
    listeners: Vec<Listener>,
    tls: Option<Arc<Tls>>,
    tls_watch: tls::Watch,
    site: Arc<Site>,
    signals: Signals,
    terminal: bool,
}

/// Reads the roots of every log.
pub(crate) fn read_roots(config: &Config, report: &mut Report) -> Vec<Roots> {
    let read = |log| roots::load(log, Remember::Yes, report);
    config.logs.iter().map(read).collect()
}

impl Server {
    /// Opens everything; logs go on opening in the background.
    ///
    /// # Errors
    /// If an address is taken, the lock cannot be opened, or no log exists.
    pub(crate) async fn start(
        config: Config,
        roots: Vec<Roots>,
        creation: Creation,
        logging: &Logging,
    ) -> Result<Self> {
        let signals = Signals::listen().context("cannot listen to signals")?;
        if let Some(files) = runtime::raise_open_files() {
            tracing::debug!(files, "open files allowed");
        }
        // Watched from before they are read: no change is missed.
        let tls_watch = tls::Watch::new(tls_files(&config));
        let tls = match &config.tls {
            Some(files) => Some(tls::load(&files.certificate.value, &files.key.value)?),
            None => None,
        };
        let listeners = bind(&config, creation, tls.as_ref()).await?;
        let lock = open_lock(&config, creation).await?;
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        logging.register(&mut registry);
        create_missing(&config, creation, &lock).await?;
        let mut logs = Vec::new();
        for (settings, roots) in config.logs.iter().zip(roots) {
            logs.push(start_log(settings, roots, &lock, &metrics));
        }
        for log in &logs {
            tokio::spawn(describe::keep(Arc::clone(log)));
        }
        let site = Site::new(logs.clone(), registry, config.http.clone())?;
        Ok(Server {
            config,
            logs,
            listeners,
            tls,
            tls_watch,
            site,
            signals,
            terminal: creation == Creation::Done,
        })
    }

    /// Serves until a signal asks to stop, then drains.
    ///
    /// # Errors
    /// If the listeners fail.
    pub(crate) async fn run(self) -> Result<()> {
        let Server {
            config,
            logs,
            listeners,
            tls,
            tls_watch,
            site,
            signals,
            terminal,
        } = self;
        for listener in &listeners {
            tracing::info!(address = %listener.local_addr()?, tls = tls.is_some(), "listening");
        }
        let (stop, stopping) = oneshot::channel::<()>();
        let serving = tokio::spawn(lucarne_http::serve(listeners, site, async {
            let _ = stopping.await;
        }));
        let mut upkeep = Upkeep {
            config: Arc::new(config),
            logs: logs.clone(),
            tls,
            tls_watch,
            terminal,
        };
        let signals = upkeep.until_stop(signals).await;
        signals.exit_at_next();
        // No listener takes another connection; the rounds of requests in
        // flight are finished, and those are answered, before both are done.
        let _ = stop.send(());
        let closing = logs.iter().map(|log| {
            let log = Arc::clone(log);
            tokio::spawn(async move { log.shutdown().await })
        });
        for closing in closing.collect::<Vec<_>>() {
            closing.await?;
        }
        serving.await.context("the HTTP server failed")?;
        tracing::info!("stopped; every submission that was taken has been answered");
        Ok(())
    }
}

fn tls_files(config: &Config) -> Vec<PathBuf> {
    let files = config.tls.iter();
    let files = files.flat_map(|tls| [&tls.certificate, &tls.key]);
    files.map(|file| file.value.clone()).collect()
}

async fn bind(
    config: &Config,
    creation: Creation,
    tls: Option<&Arc<Tls>>,
) -> Result<Vec<Listener>> {
    let option = match creation {
        Creation::OnInception => "`listen:` in the configuration file",
        Creation::InFreshDirectory => "--http-endpoint",
        Creation::Done => "--listen",
    };
    let mut listeners = Vec::new();
    for place in &config.listen {
        let listener = listen::bind(&place.value, option).await?;
        listeners.push(match tls {
            Some(tls) => listener.with_tls(Arc::clone(tls)),
            None => listener,
        });
    }
    Ok(listeners)
}

/// Opens the lock database; with flags alone, it is made with the log.
async fn open_lock(config: &Config, creation: Creation) -> Result<Arc<dyn Lock>> {
    let path = &config.checkpoints.value;
    let fresh = |log: &LogSettings| is_fresh(&log.directory.value);
    if creation == Creation::InFreshDirectory && !path.exists() {
        if let Some(log) = config.logs.iter().find(|log| !fresh(log)) {
            bail!(
                "{} has data, but its lock database {} is not there. Name the right one with \
                 --checkpoints; for data of another log software, see docs/migrating.md",
                log.directory.value.display(),
                path.display()
            );
        }
        let (lock, said) = commands::init::lock(path).await?;
        said.iter().for_each(|line| tracing::info!("{line}"));
        return Ok(lock);
    }
    let lock = survey::open_lock(path).await.map_err(anyhow::Error::msg)?;
    Ok(Arc::new(lock))
}

fn is_fresh(directory: &std::path::Path) -> bool {
    std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
        || !directory.exists()
}

/// Creates the logs that may be created now. One that does not exist and may
/// not be created stays stopped, unless there is no other.
async fn create_missing(config: &Config, creation: Creation, lock: &Arc<dyn Lock>) -> Result<()> {
    let mut refusals = Vec::new();
    for log in &config.logs {
        if inception::exists(log, lock).await? {
            continue;
        }
        let birth = inception::birth(log);
        let fresh = creation == Creation::InFreshDirectory && is_fresh(&log.directory.value);
        if fresh || birth == Birth::Today {
            inception::create(log, lock.as_ref()).await?;
            tracing::info!(
                log = log.shortname.value,
                directory = %log.directory.value.display(),
                lock = %lock.location(),
                "created the log"
            );
        } else {
            refusals.push(birth.refusal(log, &config.checkpoints.value));
        }
    }
    if refusals.len() == config.logs.len() {
        bail!("{}", refusals.join("\n"));
    }
    for refusal in refusals {
        tracing::error!("{refusal}");
    }
    Ok(())
}

fn start_log(
    settings: &LogSettings,
    roots: Roots,
    lock: &Arc<dyn Lock>,
    metrics: &Metrics,
) -> Arc<Log> {
    let assets = Arc::new(LateAssets::new(&settings.directory.value));
    let config = settings.to_log_config();
    Log::start(config, roots, assets, Arc::clone(lock), metrics)
}

/// What is done beside serving.
struct Upkeep {
    config: Arc<Config>,
    logs: Vec<Arc<Log>>,
    tls: Option<Arc<Tls>>,
    tls_watch: tls::Watch,
    /// Whether SIGHUP means that nobody watches any more: the demo.
    terminal: bool,
}

impl Upkeep {
    /// Rereads what changes until a signal asks to stop.
    async fn until_stop(&mut self, mut signals: Signals) -> Signals {
        let mut look_at_tls = tokio::time::interval(WATCH_TLS);
        let mut ask_ccadb = tokio::time::interval(WATCH_CCADB);
        ask_ccadb.reset();
        loop {
            tokio::select! {
                wish = signals.next() => match wish {
                    Wish::Stop(name) => {
                        tracing::info!("{name}: taking no more submissions, finishing the round");
                        return signals;
                    }
                    Wish::Reread if self.terminal => {
                        tracing::info!("SIGHUP: the terminal is gone, finishing the round");
                        return signals;
                    }
                    Wish::Reread => {
                        tracing::info!("SIGHUP: reading roots and TLS files again");
                        self.reread_roots(|_| true);
                        self.reread_tls();
                    }
                },
                _ = look_at_tls.tick() => if self.tls_watch.changed() {
                    self.reread_tls();
                },
                _ = ask_ccadb.tick() => self.reread_roots(|log| log.roots.ccadb.is_some()),
            }
        }
    }

    /// Reads roots again, beside everything else.
    fn reread_roots(&self, which: impl Fn(&LogSettings) -> bool) {
        for (place, log) in self.logs.iter().enumerate() {
            if which(&self.config.logs[place]) {
                let (config, log) = (Arc::clone(&self.config), Arc::clone(log));
                tokio::task::spawn_blocking(move || reread(&config.logs[place], &log));
            }
        }
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
    let roots = roots::load(settings, Remember::Yes, &mut report);
    for line in report.warning_lines() {
        tracing::warn!("{line}");
    }
    for line in report.problem_lines() {
        tracing::error!("{line}; the roots stay as they were");
    }
    if report.problems().is_empty() {
        tracing::info!(
            log = settings.shortname.value,
            roots = roots.len(),
            "roots read"
        );
        log.set_roots(roots);
    }
}
