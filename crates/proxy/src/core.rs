//! The state that all connections of a proxy share.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use lucarne_mint::store::Minter;
use lucarne_net::{OpenConnection, OpenConnections};
use rustls::KeyLog;
use tokio::sync::watch;

use crate::hosts::Hosts;
use crate::limits::Limits;
use crate::rules::Rules;
use crate::stats::Stats;
use crate::upstream::Upstream;
use crate::users::Users;

/// The phases of a proxy on its way to stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// Requests under way are finished, nothing new is taken.
    Closing,
    /// The time to finish is over.
    Cut,
}

pub(crate) struct Core {
    pub(crate) rules: Arc<ArcSwap<Rules>>,
    pub(crate) users: ArcSwapOption<Users>,
    pub(crate) minter: Arc<Minter>,
    pub(crate) upstream: Upstream,
    pub(crate) key_log: Option<Arc<dyn KeyLog>>,
    pub(crate) limits: Limits,
    pub(crate) stats: Stats,
    pub(crate) hosts: Hosts,
    /// Its name in Via headers: no other proxy has it.
    pub(crate) name: String,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) open: OpenConnections,
}

impl Core {
    /// Ready once the phase has been reached.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut phases = self.phase.subscribe();
        // The sender is this very struct: it does not go away.
        let _ = phases.wait_for(|now| *now >= phase).await;
    }

    /// The CA's certificate, as clients are to trust it.
    pub(crate) fn ca_pem(&self) -> String {
        self.minter.ca().trusted_pem()
    }

    /// The same in DER.
    pub(crate) fn ca_der(&self) -> Vec<u8> {
        let ca = self.minter.ca();
        ca.certificates().last().cloned().unwrap_or_default()
    }
}

/// Counts a connection for as long as it lives.
pub(crate) struct Open {
    core: Arc<Core>,
    _counted: OpenConnection,
}

impl Open {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        core.stats.open.inc();
        core.stats.accepted.inc();
        Open {
            core: core.clone(),
            _counted: core.open.enter(),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.core.stats.open.dec();
    }
}
