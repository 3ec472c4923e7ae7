//! A running Lucarne: the lock, the logs, the listeners, and what signals do
//! to them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lucarne_ct::{Roots, Verification};
use lucarne_http::{Listener, Serving, Site, Tls};
use lucarne_log::{GiveTurn, Log, LogConfig, Metrics, Turn};
use lucarne_storage::Lock;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use crate::closing::close;
use crate::config::{Config, LogSettings, Report};
use crate::creation::{Creation, create_missing, open_lock};
use crate::handover::{self, Candidates, Doorway, Estate, Given, Giver, Taking};
use crate::instances::Listeners;
use crate::listen::{self, Socket};
use crate::logging::Logging;
use crate::metering::Metering;
use crate::open::{LateAssets, LateLock, ReadCache};
use crate::roots::{self, Purpose};
use crate::signals::{self, Signals};
use crate::upkeep::{Upkeep, Wanted};
use crate::{describe, descriptors, notify, process_metrics, runtime, tls, verification};

/// The time for what is left to do once everything has ended or was given up.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The beginning of a server, beside its configuration.
pub(crate) struct Begin {
    /// When logs may be created.
    pub(crate) creation: Creation,
    /// Served instead of the certificate that the configuration names.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Sockets that listen already.
    pub(crate) sockets: Vec<Socket>,
    /// Who ran the logs before.
    pub(crate) predecessor: Predecessor,
}

/// Who ran the logs before a server does.
pub(crate) enum Predecessor {
    /// Nobody.
    Nobody,
    /// A process that runs them still, and hands them over.
    Another(Taking),
    /// This process, which could not hand them over.
    Itself(Signals),
}

/// The ways in which a server ends.
pub(crate) enum Ended {
    /// For good.
    Stopped,
    /// It could not hand over the logs: it is to be started again, with these roots.
    Again(Vec<Roots>, Box<Begin>),
}

/// Lock, logs and listeners, ready to serve.
pub(crate) struct Server {
    config: Arc<Config>,
    creation: Creation,
    logs: Vec<Arc<Log>>,
    turn: GiveTurn,
    lock: Arc<dyn Lock>,
    listeners: Vec<Listener>,
    tls: Option<Arc<Tls>>,
    tls_watch: tls::Watch,
    site: Arc<Site>,
    signals: Signals,
    /// Where the next process may ask for the logs.
    doorway: Option<Doorway>,
    taking: Option<Taking>,
    /// Keeps the descriptions of the logs up to date.
    _describing: JoinSet<()>,
}

/// Reads the roots of every log.
pub(crate) fn read_roots(config: &Config, report: &mut Report) -> Vec<Roots> {
    let read = |log| roots::load(log, Purpose::Start, report);
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
        begin: Begin,
        logging: &Logging,
    ) -> Result<Self> {
        let Begin {
            creation,
            tls,
            mut sockets,
            predecessor,
        } = begin;
        let fresh = matches!(predecessor, Predecessor::Nobody);
        let (signals, taking) = match predecessor {
            Predecessor::Itself(signals) => (signals, None),
            Predecessor::Nobody => (first_signals(&config)?, None),
            Predecessor::Another(mut taking) => {
                sockets.append(&mut taking.sockets);
                (first_signals(&config)?, Some(taking))
            }
        };
        let mut config = config;
        bound_connections(&mut config)?;
        let (give, turn) = Turn::later();
        if taking.is_none() {
            give.give();
        }
        // Watched from before they are read: no change is missed.
        let tls_watch = tls::Watch::new(tls_files(&config));
        let tls = match (&config.tls, tls) {
            (_, Some(tls)) => Some(tls),
            (Some(files), None) => Some(tls::load(&files.certificate.value, &files.key.value)?),
            (None, None) => None,
        };
        let listeners =
            listen::all(&config, sockets, creation.listen_option(), tls.as_ref()).await?;
        let handover = config.handover.as_ref();
        let doorway = handover
            .map(|path| Doorway::open(&path.value))
            .transpose()?;
        let instances = Listeners::bind(&config).await?;
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let metering = Metering::register(&mut registry);
        let lock = match fresh {
            true => open_lock(&config, creation, &metering).await?,
            // It is there, and may be another process's yet.
            false => {
                let observer = metering.of("lock");
                Arc::new(LateLock::new(
                    &config.checkpoints.value,
                    observer,
                    turn.clone(),
                ))
            }
        };
        let lock = metering.lock(lock);
        logging.register(&mut registry);
        process_metrics::register(&mut registry);
        if let Some(tls) = &tls {
            registry.register_collector(Box::new(tls::Expiry(Arc::clone(tls))));
        }
        let verification = verification::start(config.verification, &mut registry);
        if fresh {
            create_missing(&config, creation, &lock).await?;
        }
        let mut logs = Vec::new();
        for (settings, roots) in config.logs.iter().zip(roots) {
            let parts = (&lock, &metrics, &metering, &verification);
            let log = start_log(settings, roots, parts, &turn);
            log.await_roots(roots::awaits_ccadb(settings));
            logs.push(log);
        }
        instances.serve(&config, &logs);
        let mut describing = JoinSet::new();
        for log in &logs {
            describing.spawn(describe::keep(Arc::clone(log)));
        }
        let site = Site::new(logs.clone(), registry, config.http.clone())?;
        Ok(Server {
            config: Arc::new(config),
            creation,
            logs,
            turn: give,
            lock,
            listeners,
            tls,
            tls_watch,
            site,
            signals,
            doorway,
            taking,
            _describing: describing,
        })
    }

    /// Serves until a signal asks to stop, then drains; or until another process has
    /// the logs.
    ///
    /// # Errors
    /// If the listeners fail, or the logs could not be taken over.
    pub(crate) async fn run(mut self) -> Result<Ended> {
        for listener in &self.listeners {
            let tls = self.tls.is_some();
            tracing::info!(address = %listener.local_addr()?, tls, "listening");
        }
        // Held only where they may be needed again: nobody who comes after a stop waits in them.
        let sockets = match &self.doorway {
            Some(_) => self.sockets()?,
            None => Vec::new(),
        };
        let takes_over = self.taking.is_some();
        let (mut serving, mut candidates) = match self.taking.take() {
            Some(taking) => self.take_over(taking).await?,
            None => self.begin()?,
        };
        let notifying = notify::keep(&self.logs, takes_over);
        let drain_timeout = self.config.http.drain_timeout;
        let mut upkeep = Upkeep {
            config: Arc::clone(&self.config),
            logs: self.logs.clone(),
            tls: self.tls.clone(),
            tls_watch: self.tls_watch,
            terminal: self.creation == Creation::Done,
        };
        while let Wanted::Logs(candidate) = upkeep
            .until_wanted(&mut self.signals, candidates.as_mut())
            .await
        {
            let (logs, lock) = (&self.logs, &self.lock);
            match handover::give(candidate, &mut serving, logs, lock, drain_timeout).await {
                Given::Not => {}
                Given::Over => {
                    drop(notifying);
                    self.signals.exit_at_next();
                    serving.drain().await;
                    return Ok(Ended::Stopped);
                }
                Given::Back => {
                    let roots = self.logs.iter().map(|log| Roots::clone(&log.roots()));
                    let begin = Begin {
                        creation: self.creation,
                        tls: self.tls,
                        sockets,
                        predecessor: Predecessor::Itself(self.signals),
                    };
                    return Ok(Ended::Again(roots.collect(), Box::new(begin)));
                }
            }
        }
        notify::stopping();
        drop((candidates, sockets, notifying));
        self.signals.exit_at_next();
        // No listener takes another connection; the rounds of requests in
        // flight are finished, and those are answered, before both are done.
        serving.close().await;
        let (late, ()) = tokio::join!(close(&self.logs, drain_timeout), serving.drain());
        if !late.is_empty() {
            bail!(
                "`draintimeout` is over, and these logs wait for what does not answer: {}. Nothing \
                 that was acknowledged is lost: they go on from their journals at the next start",
                late.join(", ")
            );
        }
        close_lock(&*self.lock).await;
        tracing::info!("stopped; every submission that was taken has been answered");
        Ok(Ended::Stopped)
    }

    /// The sockets, once more.
    fn sockets(&self) -> Result<Vec<Socket>> {
        let listeners = self.config.listen.iter().zip(&self.listeners);
        let shared =
            listeners.map(|(place, listener)| Ok((place.value.to_string(), listener.share()?)));
        shared.collect()
    }

    /// What there is to be handed over to the next process.
    fn estate(&self) -> Result<Estate> {
        Ok(Estate {
            config: Arc::clone(&self.config),
            logs: self.logs.clone(),
            sockets: self.sockets()?,
        })
    }

    /// Begins to serve where nobody does.
    fn begin(&mut self) -> Result<(Serving, Option<Candidates>)> {
        let candidates = match self.doorway.take() {
            Some(doorway) => Some(doorway.answer(self.estate()?)?),
            None => None,
        };
        let listeners = std::mem::take(&mut self.listeners);
        Ok((Serving::start(listeners, self.site.clone()), candidates))
    }

    /// Takes over from the process that runs. If that fails, the other one goes on.
    async fn take_over(&mut self, mut taking: Taking) -> Result<(Serving, Option<Candidates>)> {
        let doorway = self.doorway.take();
        let doorway = doorway.context("there is no `handover`")?;
        let estate = self.estate()?;
        let giver = tokio::select! {
            giver = taking.accept() => giver?,
            name = self.signals.stop() => bail!("{name}: nothing was taken over"),
        };
        let listeners = std::mem::take(&mut self.listeners);
        let mut serving = Serving::start(listeners, self.site.clone());
        let led = match self.open_logs(&mut taking, giver).await {
            Ok(()) => return Ok((serving, Some(taking.lead(doorway, estate).await?))),
            Err(error) => error,
        };
        serving.close().await;
        close(&self.logs, self.config.http.drain_timeout).await;
        for log in &self.logs {
            if let Err(error) = log.let_go().await {
                tracing::error!(log = log.config().shortname, %error, "not let go of");
            }
        }
        close_lock(&*self.lock).await;
        taking.fail(format!("{led:#}")).await;
        serving.drain().await;
        Err(led.context("not taken over, and the process that ran goes on"))
    }

    /// Opens the logs once the other process has let go of them.
    async fn open_logs(&mut self, taking: &mut Taking, giver: Giver) -> Result<()> {
        let mut giver = giver;
        if giver == Giver::Waits {
            giver = tokio::select! {
                giver = taking.yours() => giver?,
                name = self.signals.stop() => bail!("{name}"),
            };
        }
        self.turn.give();
        let (config, lock, creation) = (self.config.clone(), self.lock.clone(), self.creation);
        tokio::spawn(async move {
            // Those that are new. What is wrong with one, itself says, too.
            if let Err(error) = create_missing(&config, creation, &lock).await {
                tracing::error!("{error:#}");
            }
        });
        if giver == Giver::Waits {
            tokio::select! {
                opened = taking.opened(&self.logs) => drop(opened?),
                name = self.signals.stop() => bail!("{name}"),
            }
        }
        Ok(())
    }
}

/// Listens to signals, whatever hangs from now on.
fn first_signals(config: &Config) -> Result<Signals> {
    let signals = Signals::listen().context("cannot listen to signals")?;
    signals::exit_in_any_case(config.http.drain_timeout + LAST_WORDS)?;
    Ok(signals)
}

/// Lowers `maxconnections` to what leaves files enough for the logs, without a word: for a
/// configuration that the operator did not write.
///
/// # Errors
/// If the process may have too few files open.
#[cfg(feature = "load")]
pub(crate) fn fit_connections(config: &mut Config) -> Result<()> {
    if let Some((_, most)) = most_connections(config)? {
        let connections = &mut config.http.connections;
        *connections = (*connections).min(most);
    }
    Ok(())
}

/// Returns the files that the process may have open, and the most connections that leave enough of
/// them for the logs; `None` if there is no limit.
fn most_connections(config: &Config) -> Result<Option<(u64, usize)>> {
    let Some(files) = runtime::raise_open_files() else {
        return Ok(None);
    };
    let most = descriptors::connections(files, config.logs.len() as u64)?;
    Ok(Some((files, most as usize)))
}

/// Leaves files enough for the logs.
fn bound_connections(config: &mut Config) -> Result<()> {
    let Some((files, most)) = most_connections(config)? else {
        return Ok(());
    };
    let connections = &mut config.http.connections;
    if *connections > most {
        tracing::warn!(
            maxconnections = *connections,
            most,
            files,
            "maxconnections does not fit the files that this process may have open, of \
             which some are kept for the logs: raise that limit (LimitNOFILE), or lower \
             maxconnections"
        );
        *connections = most;
    }
    Ok(())
}

/// Closes the lock, unless it does not answer.
async fn close_lock(lock: &dyn Lock) {
    if tokio::time::timeout(LAST_WORDS, lock.close())
        .await
        .is_err()
    {
        tracing::warn!("{} does not answer: it is left as it is", lock.location());
    }
}

fn tls_files(config: &Config) -> Vec<PathBuf> {
    let files = config.tls.iter();
    let files = files.flat_map(|tls| [&tls.certificate, &tls.key]);
    files.map(|file| file.value.clone()).collect()
}

fn start_log(
    settings: &LogSettings,
    roots: Roots,
    (lock, metrics, metering, verification): (
        &Arc<dyn Lock>,
        &Metrics,
        &Metering,
        &Arc<Verification>,
    ),
    turn: &Turn,
) -> Arc<Log> {
    let cache = ReadCache {
        directory: settings.tiles_directory(),
        bytes: settings.disk_cache,
    };
    let observer = metering.of(&settings.shortname.value);
    let assets = LateAssets::new(&settings.data.value, cache, observer, turn.clone());
    let config = LogConfig {
        verification: Arc::clone(verification),
        ..settings.to_log_config()
    };
    let places = (Arc::new(assets) as _, Arc::clone(lock));
    Log::start_in_turn(config, roots, places, metrics, turn.clone())
}
