//! A running Lucarne: the lock, the logs, the listeners, and what signals do
//! to them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lucarne_ct::{Roots, Verification};
use lucarne_http::{Listener, Site, Tls};
use lucarne_log::{Log, LogConfig, Metrics};
use lucarne_storage::{Lock, LockError};
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use crate::config::{Config, DataPlace, LockPlace, LogSettings, Report};
use crate::inception::{self, Birth};
use crate::listen;
use crate::logging::Logging;
use crate::metering::Metering;
use crate::open::{LateAssets, LateLock, ReadCache};
use crate::roots::{self, Remember};
use crate::signals::{self, Signals, Wish};
use crate::{commands, describe, descriptors, runtime, tls, verification};

/// The time between two looks for changed TLS files.
const WATCH_TLS: Duration = Duration::from_secs(2);
/// The time after which CCADB is asked again for new roots.
const WATCH_CCADB: Duration = Duration::from_secs(24 * 3600);

/// The time for what is left to do once everything has ended or was given up.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The time after which a lock or store that did not answer is asked again whether a log exists.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// The day on which a log that does not exist may be created.
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
    lock: Arc<dyn Lock>,
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
    /// Opens everything; logs go on opening in the background. `testcert`
    /// serves where the configuration has no certificate.
    ///
    /// # Errors
    /// If an address is taken, the lock cannot be opened, or no log exists.
    pub(crate) async fn start(
        config: Config,
        roots: Vec<Roots>,
        creation: Creation,
        testcert: Option<Arc<Tls>>,
        logging: &Logging,
    ) -> Result<Self> {
        let signals = Signals::listen().context("cannot listen to signals")?;
        let mut config = config;
        signals::exit_in_any_case(config.http.drain_timeout + LAST_WORDS)?;
        if let Some(files) = runtime::raise_open_files() {
            let most = descriptors::connections(files, config.logs.len() as u64)?;
            let connections = &mut config.http.connections;
            if *connections as u64 > most {
                tracing::warn!(
                    maxconnections = *connections,
                    most,
                    files,
                    "maxconnections does not fit the files that this process may have open, of \
                     which some are kept for the logs: raise that limit (LimitNOFILE), or lower \
                     maxconnections"
                );
                *connections = most as usize;
            }
        }
        // Watched from before they are read: no change is missed.
        let tls_watch = tls::Watch::new(tls_files(&config));
        let tls = match &config.tls {
            Some(files) => Some(tls::load(&files.certificate.value, &files.key.value)?),
            None => testcert,
        };
        let listeners = bind(&config, creation, tls.as_ref()).await?;
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let metering = Metering::register(&mut registry);
        let lock = metering.lock(open_lock(&config, creation, &metering).await?);
        logging.register(&mut registry);
        let verification = verification::start(config.verification, &mut registry);
        create_missing(&config, creation, &lock).await?;
        let mut logs = Vec::new();
        for (settings, roots) in config.logs.iter().zip(roots) {
            let log = start_log(settings, roots, &lock, &metrics, &metering, &verification);
            logs.push(log);
        }
        for log in &logs {
            tokio::spawn(describe::keep(Arc::clone(log)));
        }
        let site = Site::new(logs.clone(), registry, config.http.clone())?;
        Ok(Server {
            config,
            logs,
            lock,
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
            lock,
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
        let drain_timeout = config.http.drain_timeout;
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
        let late = close(&logs, drain_timeout).await;
        serving.await.context("the HTTP server failed")?;
        if !late.is_empty() {
            bail!(
                "`draintimeout` is over, and these logs wait for what does not answer: {}. Nothing \
                 that was acknowledged is lost: they go on from their journals at the next start",
                late.join(", ")
            );
        }
        if tokio::time::timeout(LAST_WORDS, lock.close())
            .await
            .is_err()
        {
            tracing::warn!("{} does not answer: it is left as it is", lock.location());
        }
        tracing::info!("stopped; every submission that was taken has been answered");
        Ok(())
    }
}

/// Closes all logs side by side. Returns the names of those that did not end in
/// time.
async fn close(logs: &[Arc<Log>], time: Duration) -> Vec<String> {
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

/// Opens the lock; with flags alone, it is made with the log. One that does not
/// answer now is opened when it does.
async fn open_lock(
    config: &Config,
    creation: Creation,
    metering: &Metering,
) -> Result<Arc<dyn Lock>> {
    let place = &config.checkpoints.value;
    if creation == Creation::InFreshDirectory {
        if let LockPlace::Sqlite(path) = place
            && !path.exists()
            && let Some(log) = config.logs.iter().find(|log| !is_fresh(&log.data.value))
        {
            bail!(
                "{} has data, but its lock database {} is not there. Name the right one with \
                 --checkpoints; for data of another log software, see docs/migrating.md",
                log.data.value,
                path.display()
            );
        }
        let (lock, said) = commands::init::lock(place).await?;
        said.iter().for_each(|line| tracing::info!("{line}"));
        return Ok(lock);
    }
    let lock = LateLock::new(place, metering.of("lock"));
    match lock.open().await {
        Ok(_) => {}
        Err(error @ LockError::Failed { .. }) => {
            tracing::error!(%error, "the lock does not answer; its logs wait for it");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Arc::new(lock))
}

/// Returns true if nothing is there. (Of a bucket, creation itself finds out.)
fn is_fresh(place: &DataPlace) -> bool {
    let Some(directory) = place.directory() else {
        return true;
    };
    match std::fs::read_dir(directory) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        // What was begun and cut short has nothing public, and nothing staged.
        Ok(mut entries) => entries.all(|entry| {
            entry.is_ok_and(|entry| entry.file_name() == ".lucarne" && holds_nothing(&entry.path()))
        }),
    }
}

/// Returns true if no round was ever staged there.
fn holds_nothing(own: &Path) -> bool {
    match std::fs::read_dir(own.join("journal")) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(mut segments) => segments.next().is_none(),
    }
}

/// Creates the logs that may be created now. One that does not exist and may
/// not be created stays stopped, unless there is no other.
async fn create_missing(config: &Config, creation: Creation, lock: &Arc<dyn Lock>) -> Result<()> {
    let mut refusals = Vec::new();
    for log in &config.logs {
        match create_if_missing(log, creation, &config.checkpoints.value, &**lock).await {
            Ok(None) => {}
            Ok(Some(refusal)) => refusals.push(refusal),
            Err(error) if is_passing(&error) => {
                tracing::error!("{error:#}");
                let (log, place) = (log.clone(), config.checkpoints.value.clone());
                tokio::spawn(create_later(log, creation, place, Arc::clone(lock)));
            }
            // A disk that fails, or a directory that is not ours, is this log's own.
            Err(error) if is_of_its_data(&error) => refusals.push(format!("{error:#}")),
            Err(error) => return Err(error),
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

/// Creates the log if it does not exist and may be created; else why it is not.
async fn create_if_missing(
    log: &LogSettings,
    creation: Creation,
    place: &LockPlace,
    lock: &dyn Lock,
) -> Result<Option<String>> {
    if inception::exists(log, lock).await? {
        return Ok(None);
    }
    if let Err(known) = Log::unseen(&log.to_log_config()).await {
        return Ok(Some(format!("log `{}`: {known}", log.shortname.value)));
    }
    let birth = inception::birth(log);
    let fresh = creation == Creation::InFreshDirectory && is_fresh(&log.data.value);
    if !fresh && birth != Birth::Today {
        return Ok(Some(birth.refusal(log, place)));
    }
    inception::create(log, lock).await?;
    tracing::info!(
        log = log.shortname.value,
        data = %log.data.value,
        lock = %lock.location(),
        "created the log"
    );
    Ok(None)
}

/// Returns true if a store or a server only has to come back.
fn is_passing(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let lock = cause.downcast_ref::<LockError>();
        let storage = cause.downcast_ref::<lucarne_storage::AssetError>();
        use lucarne_storage::AssetError::{Silent, Unavailable};
        matches!(lock, Some(LockError::Failed { .. }))
            || matches!(storage, Some(Unavailable { .. } | Silent { .. }))
    })
}

/// Returns true if it comes from where the log's data is, and not from the
/// lock, which all logs share.
fn is_of_its_data(error: &anyhow::Error) -> bool {
    let mut causes = error.chain();
    causes.any(|cause| cause.is::<lucarne_storage::AssetError>() || cause.is::<io::Error>())
}

/// Decides it once lock and store answer.
async fn create_later(log: LogSettings, creation: Creation, place: LockPlace, lock: Arc<dyn Lock>) {
    loop {
        // Each attempt waits for its answers, too.
        tokio::time::sleep(ASK_AGAIN).await;
        match create_if_missing(&log, creation, &place, &*lock).await {
            Ok(None) => return,
            Ok(Some(refusal)) => return tracing::error!("{refusal}"),
            Err(error) if is_passing(&error) => {}
            Err(error) => return tracing::error!("{error:#}"),
        }
    }
}

fn start_log(
    settings: &LogSettings,
    roots: Roots,
    lock: &Arc<dyn Lock>,
    metrics: &Metrics,
    metering: &Metering,
    verification: &Arc<Verification>,
) -> Arc<Log> {
    let cache = ReadCache {
        directory: settings.tiles_directory(),
        bytes: settings.disk_cache,
    };
    let observer = metering.of(&settings.shortname.value);
    let assets = Arc::new(LateAssets::new(&settings.data.value, cache, observer));
    let config = LogConfig {
        verification: Arc::clone(verification),
        ..settings.to_log_config()
    };
    Log::start(config, roots, assets, Arc::clone(lock), metrics)
}

/// The work that is done beside serving.
struct Upkeep {
    config: Arc<Config>,
    logs: Vec<Arc<Log>>,
    tls: Option<Arc<Tls>>,
    tls_watch: tls::Watch,
    /// True if SIGHUP means that nobody watches any more: the demo.
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
