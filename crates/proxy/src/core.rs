//! State that all connections of a proxy share.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use lucarne_mint::store::Minter;
use lucarne_net::{OpenConnection, OpenConnections};
use parking_lot::Mutex;
use rustls::KeyLog;
use tokio::sync::watch;

use crate::checks::network;
use crate::hosts::Hosts;
use crate::learned::Learned;
use crate::limits::Limits;
use crate::records::Recorder;
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
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) hosts: Hosts,
    pub(crate) learned: Learned,
    /// Name of this proxy in `Via` headers, unique to it.
    pub(crate) name: String,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) open: OpenConnections,
    /// Open connections of each client, by network.
    pub(crate) clients: Mutex<HashMap<IpAddr, usize>>,
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

/// Counts a connection of a client until it is dropped.
pub(crate) struct Open {
    core: Arc<Core>,
    network: IpAddr,
    _counted: OpenConnection,
}

impl Open {
    pub(crate) fn new(core: &Arc<Core>, client: SocketAddr) -> Self {
        let network = network(client.ip());
        core.stats.open.inc();
        core.stats.accepted.inc();
        *core.clients.lock().entry(network).or_default() += 1;
        Open {
            core: core.clone(),
            network,
            _counted: core.open.enter(),
        }
    }

    /// Returns the number of open connections of this client.
    pub(crate) fn of(core: &Core, client: SocketAddr) -> usize {
        let clients = core.clients.lock();
        clients.get(&network(client.ip())).copied().unwrap_or(0)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.core.stats.open.dec();
        let mut clients = self.core.clients.lock();
        if let Entry::Occupied(mut client) = clients.entry(self.network) {
            *client.get_mut() -= 1;
            if *client.get() == 0 {
                client.remove();
            }
        }
    }
}
