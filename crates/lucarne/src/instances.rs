//! Listeners for messages of other instances of the logs.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use lucarne_http::InstanceServer;
use lucarne_log::Log;
use tokio::net::TcpListener;

use crate::config::Config;

/// Sockets, each with the indices of its logs in the configuration.
pub(crate) struct Listeners(Vec<(TcpListener, Vec<usize>)>);

impl Listeners {
    /// Listens on the configured addresses.
    ///
    /// # Errors
    /// If an address is in use, or does not belong to this machine.
    pub(crate) async fn bind(config: &Config) -> Result<Self> {
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, log) in config.logs.iter().enumerate() {
            if let Some(instances) = &log.instances {
                places
                    .entry(&instances.value.listen)
                    .or_default()
                    .push(place);
            }
        }
        let mut listeners = Vec::new();
        for (address, logs) in places {
            let everywhere = address.strip_prefix(':').map(|port| format!("[::]:{port}"));
            let listener = TcpListener::bind(everywhere.as_deref().unwrap_or(address)).await;
            let listener = listener.with_context(|| {
                format!(
                    "cannot listen on {address}, for other instances: `address` (or `listen`) of \
                     `instances` must be a free address of this machine"
                )
            })?;
            listeners.push((listener, logs));
        }
        Ok(Listeners(listeners))
    }

    /// Starts to receive messages of other instances.
    pub(crate) fn serve(self, config: &Config, logs: &[Arc<Log>]) {
        for (listener, places) in self.0 {
            let mut server = InstanceServer::default();
            for place in places {
                if let Some(instances) = &config.logs[place].instances {
                    server.add(Arc::clone(&logs[place]), instances.value.key.clone());
                }
            }
            tokio::spawn(Arc::new(server).serve(listener));
        }
    }
}
