//! A running server: the lock, the logs, the listeners, and their shutdown.

mod running;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lucarne_ct::Roots;
use lucarne_http::{Cosigners, Listener, Serving, Site, Tls};
use lucarne_log::{GiveTurn, Log, Metrics, Turn};
use lucarne_storage::Lock;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;

use self::running::Running;
use crate::closing::close;
use crate::config::{Config, Report};
use crate::creation::{Creation, create_missing, open_lock};
use crate::handover::{Candidates, Doorway, Estate, Giver, Taking};
use crate::hosting::{Current, Host, Hosted};
use crate::instances::InstanceServers;
use crate::listen::{self, Socket};
use crate::logging::Logging;
use crate::metering::Metering;
use crate::mirror::{self, Mirroring};
use crate::open::LateLock;
use crate::otlp::{Exporter, Exporting};
use crate::reload::{Progress, Reload};
use crate::roots::{self, Purpose};
use crate::signals::{self, Signals};
use crate::upkeep::Upkeep;
use crate::witness_service::{self, Lists};
use crate::{descriptors, notify, process_metrics, tls, verification};

/// The time for closing the lock at the end of a shutdown.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The parameters of a start, in addition to the configuration.
pub(crate) struct Begin {
    /// Conditions under which logs may be created.
    pub(crate) creation: Creation,
    /// TLS settings that replace the certificate of the configuration.
    pub(crate) tls: Option<Arc<Tls>>,
    /// Sockets that listen already.
    pub(crate) sockets: Vec<Socket>,
    /// The process that ran the logs before.
    pub(crate) predecessor: Predecessor,
    /// The configuration file that SIGHUP reads again, if there is one.
    pub(crate) file: Option<PathBuf>,
}

/// The process that ran the logs before.
pub(crate) enum Predecessor {
    /// No process ran the logs: this is an ordinary start.
    Nobody,
    /// A process that still runs the logs, and hands them over.
    Another(Taking),
    /// This process, after a failed hand-over.
    Itself(Signals),
}

/// The reasons for the end of a server.
pub(crate) enum Ended {
    /// Stopped by a signal, or by a hand-over.
    Stopped,
    /// Ended by a failed hand-over: the server must be started again with these values.
    Again(Box<(Config, Vec<Roots>, Begin)>),
}

/// Lock, logs and listeners, ready to serve.
pub(crate) struct Server {
    hosted: Current,
    creation: Creation,
    file: Option<PathBuf>,
    host: Host,
    turn: GiveTurn,
    lock: Arc<dyn Lock>,
    listeners: Vec<Listener>,
    tls: Option<Arc<Tls>>,
    tls_watch: Arc<Mutex<tls::Watch>>,
    site: Arc<Site>,
    /// The log lists of the witness.
    lists: Option<Lists>,
    /// The tasks of the mirror.
    mirroring: Option<Mirroring>,
    exporting: Exporting,
    signals: Signals,
    /// The socket at which the next process requests the logs.
    doorway: Option<Doorway>,
    taking: Option<Taking>,
}

/// Reads the roots of every log.
pub(crate) fn read_roots(config: &Config, report: &mut Report) -> Vec<Roots> {
    let read = |log| roots::load(log, Purpose::Start, report);
    config.logs.iter().map(read).collect()
}

impl Server {
    /// Opens lock and listeners, and starts the logs, which open in the background.
    ///
    /// # Errors
    /// If an address is taken, the lock cannot be opened, or no log exists.
    pub(crate) async fn start(
        mut config: Config,
        roots: Vec<Roots>,
        begin: Begin,
        logging: &Logging,
    ) -> Result<Self> {
        let Begin {
            creation,
            tls,
            mut sockets,
            predecessor,
            file,
        } = begin;
        let fresh = matches!(predecessor, Predecessor::Nobody);
        let (signals, taking) = signals_and_taking(predecessor, &config, &mut sockets)?;
        descriptors::bound_connections(&mut config)?;
        let (give, turn) = Turn::later();
        if taking.is_none() {
            give.give();
        }
        // The watch begins before the files are read, so that no change is missed.
        let tls_watch = Arc::new(Mutex::new(tls::Watch::new(config.tls_files())));
        let tls = served_tls(&config, tls)?;
        let listeners =
            listen::all(&config, sockets, creation.listen_option(), tls.as_ref()).await?;
        let doorway = config.handover.as_ref();
        let doorway = doorway.map(|path| Doorway::open(&path.value)).transpose()?;
        let instances = InstanceServers::of(&config.logs).await?;
        let mut registry = Registry::default();
        let opening = Opening {
            config: &config,
            creation,
            fresh,
            turn: &turn,
        };
        let mut host = opening
            .host(instances, tls.as_ref(), logging, &mut registry)
            .await?;
        let logs = config.logs.iter().zip(roots);
        let logs = logs.map(|(settings, roots)| host.start(settings, roots, &turn));
        let logs: Vec<_> = logs.collect();
        host.instances.serve();
        let witness = config.witness.as_ref();
        let witness =
            witness.map(|settings| witness_service::open(settings, &host.lock, &mut registry));
        let witness = witness.transpose()?;
        let mirroring = match &config.mirror {
            Some(settings) => {
                let shared = (&host.lock, &host.metering);
                Some(mirror::open(settings, shared, &turn, &mut registry).await?)
            }
            None => None,
        };
        let (site, exporting) = site(&config, logs.clone(), registry)?;
        site.serve_cosigners(Cosigners {
            witness: witness.clone(),
            mirror: mirroring.as_ref().map(|it| Arc::clone(&it.service)),
        })?;
        let lists = config.witness.as_ref().zip(witness);
        let lists = lists.map(|(settings, service)| Lists::follow(settings, &service));
        Ok(Server {
            hosted: Current::new(Hosted { config, logs }),
            creation,
            file,
            lock: Arc::clone(&host.lock),
            host,
            turn: give,
            listeners,
            tls,
            tls_watch,
            site,
            lists,
            mirroring,
            exporting,
            signals,
            doorway,
            taking,
        })
    }

    /// Serves until a signal to stop, then drains; or until another process has the logs.
    ///
    /// # Errors
    /// If the listeners fail, or the logs could not be taken over.
    pub(crate) async fn run(mut self) -> Result<Ended> {
        for listener in &self.listeners {
            let tls = self.tls.is_some();
            tracing::info!(address = %listener.local_addr()?, tls, "listening");
        }
        // The copies exist only if a failed hand-over may need them: after a stop, no client must
        // wait in a socket.
        let sockets = match &self.doorway {
            Some(_) => self.sockets()?,
            None => Vec::new(),
        };
        let takes_over = self.taking.is_some();
        let (serving, candidates) = match self.taking.take() {
            Some(taking) => match self.take_over(taking).await {
                Ok(taken) => taken,
                Err(error) => {
                    self.exporting.finish().await;
                    return Err(error);
                }
            },
            None => self.begin()?,
        };
        let running = Running {
            upkeep: Upkeep {
                hosted: self.hosted.clone(),
                reload: Reload {
                    file: self.file,
                    creation: self.creation,
                    host: self.host,
                    site: Arc::clone(&self.site),
                    hosted: self.hosted.clone(),
                    progress: Progress::default(),
                },
                lists: self.lists,
                tls: self.tls.clone(),
                tls_watch: self.tls_watch,
                terminal: self.creation == Creation::Done,
            },
            mirroring: self.mirroring,
            exporting: self.exporting,
            notifying: notify::keep(&self.hosted, &self.lock, takes_over),
            serving,
            candidates,
            sockets,
            signals: self.signals,
            lock: self.lock,
            tls: self.tls,
            drain_timeout: self.hosted.now().config.http.drain_timeout,
        };
        running.until_ended().await
    }

    /// Returns copies of the sockets.
    fn sockets(&self) -> Result<Vec<Socket>> {
        let hosted = self.hosted.now();
        let listeners = hosted.config.listen.iter().zip(&self.listeners);
        let shared =
            listeners.map(|(place, listener)| Ok((place.value.to_string(), listener.share()?)));
        shared.collect()
    }

    /// Returns the logs and sockets for the next process.
    fn estate(&self) -> Result<Estate> {
        Ok(Estate {
            hosted: self.hosted.clone(),
            sockets: self.sockets()?,
        })
    }

    /// Begins to serve without a predecessor.
    fn begin(&mut self) -> Result<(Serving, Option<Candidates>)> {
        let candidates = match self.doorway.take() {
            Some(doorway) => Some(doorway.answer(self.estate()?)?),
            None => None,
        };
        let listeners = std::mem::take(&mut self.listeners);
        Ok((Serving::start(listeners, self.site.clone()), candidates))
    }

    /// Takes over from the running process. If that fails, the other process continues.
    async fn take_over(&mut self, mut taking: Taking) -> Result<(Serving, Option<Candidates>)> {
        let doorway = self.doorway.take();
        let doorway = doorway.context("`handover` is not configured")?;
        let estate = self.estate()?;
        let giver = tokio::select! {
            giver = taking.accept() => giver?,
            name = self.signals.stop() => bail!("stopped by {name}: nothing was taken over"),
        };
        let listeners = std::mem::take(&mut self.listeners);
        let mut serving = Serving::start(listeners, self.site.clone());
        let led = match self.open_logs(&mut taking, giver).await {
            Ok(()) => return Ok((serving, Some(taking.lead(doorway, estate).await?))),
            Err(error) => error,
        };
        serving.close().await;
        let hosted = self.hosted.now();
        close(&hosted.logs, hosted.config.http.drain_timeout).await;
        for log in &hosted.logs {
            if let Err(error) = log.let_go().await {
                let log = &log.config().shortname;
                tracing::error!(log, %error, "the storage is not released");
            }
        }
        close_lock(&*self.lock).await;
        taking.fail(format!("{led:#}")).await;
        serving.drain().await;
        Err(led.context("cannot take over (the running process continues)"))
    }

    /// Opens the logs after the other process has released them.
    async fn open_logs(&mut self, taking: &mut Taking, giver: Giver) -> Result<()> {
        let mut giver = giver;
        if giver == Giver::Waits {
            giver = tokio::select! {
                giver = taking.yours() => giver?,
                name = self.signals.stop() => bail!("stopped by {name}"),
            };
        }
        self.turn.give();
        let hosted = self.hosted.now();
        let (created, lock, creation) = (hosted.clone(), self.lock.clone(), self.creation);
        tokio::spawn(async move {
            // Creates the logs that are new. The state of a log also shows the error.
            if let Err(error) = create_missing(&created.config, creation, &lock).await {
                tracing::error!("{error:#}");
            }
        });
        if giver == Giver::Waits {
            tokio::select! {
                opened = taking.opened(&hosted.logs) => drop(opened?),
                name = self.signals.stop() => bail!("stopped by {name}"),
            }
            if hosted.config.witness.is_some() {
                let checked = self.lock.check().await;
                checked.context("the lock of the witness is not writable")?;
            }
        }
        Ok(())
    }
}

/// Creates the site of these logs, and starts to export its traces and metrics if configured.
fn site(
    config: &Config,
    logs: Vec<Arc<Log>>,
    mut registry: Registry,
) -> Result<(Arc<Site>, Exporting)> {
    let exporter = Exporter::register(config.otlp.as_ref(), &mut registry);
    let site = Site::new(logs, registry, config.http.clone())?;
    let exporting = exporter.start(&site);
    Ok((site, exporting))
}

/// The steps of a start that concern all logs.
struct Opening<'c> {
    config: &'c Config,
    creation: Creation,
    /// Whether no other process ran the logs before.
    fresh: bool,
    turn: &'c Turn,
}

impl Opening<'_> {
    /// Registers the metrics of the process, opens the lock, and creates missing logs.
    async fn host(
        &self,
        instances: InstanceServers,
        tls: Option<&Arc<Tls>>,
        logging: &Logging,
        registry: &mut Registry,
    ) -> Result<Host> {
        let metrics = Metrics::register(registry);
        let metering = Metering::register(registry);
        let lock = metering.lock(self.lock(&metering).await?);
        logging.register(registry);
        process_metrics::register(registry);
        if let Some(tls) = tls {
            registry.register_collector(Box::new(tls::Expiry(Arc::clone(tls))));
        }
        let verification = verification::start(self.config.verification, registry);
        if self.fresh {
            create_missing(self.config, self.creation, &lock).await?;
        }
        Ok(Host {
            lock,
            metrics,
            metering,
            verification,
            instances,
            describing: JoinSet::new(),
        })
    }

    async fn lock(&self, metering: &Metering) -> Result<Arc<dyn Lock>> {
        if self.fresh {
            return open_lock(self.config, self.creation, metering).await;
        }
        // The lock exists, and another process may still have it open.
        let observer = metering.of("lock");
        let place = &self.config.checkpoints.value;
        Ok(Arc::new(LateLock::new(place, observer, self.turn.clone())))
    }
}

/// Returns the signals of the process and the hand-over of the predecessor, whose sockets are added
/// to `sockets`.
fn signals_and_taking(
    predecessor: Predecessor,
    config: &Config,
    sockets: &mut Vec<Socket>,
) -> Result<(Signals, Option<Taking>)> {
    Ok(match predecessor {
        Predecessor::Itself(signals) => (signals, None),
        Predecessor::Nobody => (first_signals(config)?, None),
        Predecessor::Another(mut taking) => {
            sockets.append(&mut taking.sockets);
            (first_signals(config)?, Some(taking))
        }
    })
}

/// Returns `given`, or else the certificate of the configuration.
fn served_tls(config: &Config, given: Option<Arc<Tls>>) -> Result<Option<Arc<Tls>>> {
    Ok(match (&config.tls, given) {
        (_, Some(tls)) => Some(tls),
        (Some(files), None) => Some(tls::load(&files.certificate.value, &files.key.value)?),
        (None, None) => None,
    })
}

/// Listens for signals, and bounds the time of a shutdown.
fn first_signals(config: &Config) -> Result<Signals> {
    let signals = Signals::listen().context("cannot listen for signals")?;
    signals::exit_in_any_case(config.http.drain_timeout + LAST_WORDS)?;
    Ok(signals)
}

/// Closes the lock, unless it does not respond.
async fn close_lock(lock: &dyn Lock) {
    if tokio::time::timeout(LAST_WORDS, lock.close())
        .await
        .is_err()
    {
        tracing::warn!(
            "the lock {} does not respond and was not closed",
            lock.location()
        );
    }
}
