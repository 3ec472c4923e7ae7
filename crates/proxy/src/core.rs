//! State that all connections of a proxy share.

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

/// Phases of a proxy that stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// Requests in progress are finished; new requests are not accepted.
    Closing,
    /// The time for requests in progress is over.
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
    /// Name of this proxy in `Via` headers, unique to it.
    pub(crate) name: String,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) open: OpenConnections,
}

impl Core {
    /// Waits until the proxy is in `phase` or in a later phase.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut phases = self.phase.subscribe();
        // The sender is a field of `self` and cannot be dropped first.
        let _ = phases.wait_for(|now| *now >= phase).await;
    }

    /// Returns the CA certificate that clients must trust, in PEM.
    pub(crate) fn ca_pem(&self) -> String {
        self.minter.ca().trusted_pem()
    }

    /// Returns the CA certificate that clients must trust, in DER.
    pub(crate) fn ca_der(&self) -> Vec<u8> {
        let ca = self.minter.ca();
        ca.certificates().last().cloned().unwrap_or_default()
    }
}

/// Counts a connection until it is dropped.
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
