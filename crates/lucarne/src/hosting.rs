//! The logs of this process, and the parts that they share.

use std::sync::Arc;

use anyhow::Result;
use lucarne_ct::{Roots, Verification};
use lucarne_log::{Log, LogConfig, Metrics, Turn, Witnesses};
use lucarne_storage::Lock;
use parking_lot::RwLock;
use tokio::task::JoinSet;

use crate::config::{Config, LogSettings};
use crate::instances::InstanceServers;
use crate::metering::Metering;
use crate::open::{LateAssets, ReadCache};
use crate::{describe, roots};

/// The logs of this process with the settings that are in effect.
pub(crate) struct Hosted {
    /// The settings of the process and of its logs.
    pub(crate) config: Config,
    /// The logs, in the order of the settings.
    pub(crate) logs: Vec<Arc<Log>>,
}

impl Hosted {
    /// Returns each log with its settings.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&LogSettings, &Arc<Log>)> {
        self.config.logs.iter().zip(&self.logs)
    }
}

/// The present [`Hosted`]. A reload replaces the whole value.
#[derive(Clone)]
pub(crate) struct Current(Arc<RwLock<Arc<Hosted>>>);

impl Current {
    pub(crate) fn new(hosted: Hosted) -> Self {
        Current(Arc::new(RwLock::new(Arc::new(hosted))))
    }

    /// Returns the logs as they are now.
    pub(crate) fn now(&self) -> Arc<Hosted> {
        Arc::clone(&self.0.read())
    }

    pub(crate) fn replace(&self, hosted: Hosted) {
        *self.0.write() = Arc::new(hosted);
    }
}

/// The parts that all logs of this process share.
pub(crate) struct Host {
    /// The lock of all logs.
    pub(crate) lock: Arc<dyn Lock>,
    /// The metrics of the logs.
    pub(crate) metrics: Metrics,
    /// The metrics of the stores.
    pub(crate) metering: Metering,
    /// The verifier of signatures.
    pub(crate) verification: Arc<Verification>,
    /// The servers for other instances.
    pub(crate) instances: InstanceServers,
    /// Tasks that keep the descriptions of the logs up to date.
    pub(crate) describing: JoinSet<()>,
}

impl Host {
    /// Starts a log of this process. The log opens in the background, after `turn` has come.
    pub(crate) fn start(&mut self, settings: &LogSettings, roots: Roots, turn: &Turn) -> Arc<Log> {
        let cache = ReadCache {
            directory: settings.tiles_directory(),
            bytes: settings.rounds.disk_cache,
        };
        let observer = self.metering.of(&settings.shortname.value);
        let place = &settings.data.value;
        let assets = LateAssets::for_readers(place, cache, observer, turn.clone());
        let config = LogConfig {
            verification: Arc::clone(&self.verification),
            ..settings.to_log_config()
        };
        let places = (assets, Arc::clone(&self.lock));
        let log = Log::start_in_turn(config, roots, places, &self.metrics, turn.clone());
        log.await_roots(roots::awaits_ccadb(settings));
        self.instances.add(settings, &log);
        self.describing.spawn(describe::keep(Arc::clone(&log)));
        log
    }

    /// Listens for the other instances of a log before the log starts, if instances are configured.
    ///
    /// # Errors
    /// If the address is taken, or is not an address of this machine.
    pub(crate) async fn listen(&mut self, settings: &LogSettings) -> Result<()> {
        self.instances.listen(settings).await
    }

    /// Removes a closed log from the servers and the metrics.
    pub(crate) fn forget(&self, log: &Log) {
        self.instances.remove(log);
        let name = &log.config().shortname;
        let witnesses = log.config().witnesses.iter();
        self.metrics
            .forget(name, witnesses.flat_map(Witnesses::names));
        self.metering.forget(name);
    }
}
