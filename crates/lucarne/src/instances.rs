//! The listeners that other instances of the logs connect to.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use lucarne_http::InstanceServer;
use lucarne_log::Log;
use tokio::net::TcpListener;

use crate::config::LogSettings;

/// The servers for other instances, by the address in the configuration.
#[derive(Default)]
pub(crate) struct InstanceServers(BTreeMap<String, Listening>);

/// The server for other instances at one address.
struct Listening {
    /// The socket, until connections are accepted from it.
    listener: Option<TcpListener>,
    server: Arc<InstanceServer>,
}

impl InstanceServers {
    /// Listens on all addresses that these logs have for other instances.
    ///
    /// # Errors
    /// See [`listen`](Self::listen).
    pub(crate) async fn of(logs: &[LogSettings]) -> Result<Self> {
        let mut servers = InstanceServers::default();
        for log in logs {
            servers.listen(log).await?;
        }
        Ok(servers)
    }

    /// Listens on the address that a log has for other instances, if the log has one.
    ///
    /// # Errors
    /// If the address is taken, or is not an address of this machine.
    pub(crate) async fn listen(&mut self, log: &LogSettings) -> Result<()> {
        let Some(instances) = &log.instances else {
            return Ok(());
        };
        let address = instances.value.listen.as_str();
        if self.0.contains_key(address) {
            return Ok(());
        }
        let everywhere = address.strip_prefix(':').map(|port| format!("[::]:{port}"));
        let listener = TcpListener::bind(everywhere.as_deref().unwrap_or(address)).await;
        let listener = listener.with_context(|| {
            format!(
                "cannot listen on {address} for other instances: `address` (or `listen`) of \
                 `instances` must be a free address of this machine"
            )
        })?;
        let listening = Listening {
            listener: Some(listener),
            server: Arc::default(),
        };
        self.0.insert(address.to_owned(), listening);
        Ok(())
    }

    /// Adds a log to the server of its address, if the log has one.
    pub(crate) fn add(&self, settings: &LogSettings, log: &Arc<Log>) {
        if let Some(instances) = &settings.instances
            && let Some(listening) = self.0.get(&instances.value.listen)
        {
            let key = instances.value.key.clone();
            listening.server.add(Arc::clone(log), key);
        }
    }

    /// Removes a log from its server.
    pub(crate) fn remove(&self, log: &Log) {
        let id = log.config().key.log_id();
        for listening in self.0.values() {
            listening.server.remove(&id);
        }
    }

    /// Accepts connections on all addresses.
    pub(crate) fn serve(&mut self) {
        for listening in self.0.values_mut() {
            if let Some(listener) = listening.listener.take() {
                tokio::spawn(Arc::clone(&listening.server).serve(listener));
            }
        }
    }
}
