//! The few requests that Lucarne itself makes: CCADB's report, and the demo's
//! submissions. Blocking: not for a thread that runs tasks.

#[cfg(feature = "load")]
mod post;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// A client that trusts what this machine trusts, and keeps connections.
pub(crate) struct Client(Agent);

impl Client {
    /// A client whose requests take at most `timeout`.
    pub(crate) fn new(timeout: Duration) -> Self {
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(timeout))
            .user_agent(concat!("lucarne/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .build();
        Client(config.into())
    }

    /// The body at `url`, at most `limit` bytes.
    pub(crate) fn get(&self, url: &str, limit: u64) -> Result<Vec<u8>> {
        let mut response = self.0.get(url).call()?;
        let status = response.status();
        ensure!(status.is_success(), "the server answered {status}");
        Ok(response
            .body_mut()
            .with_config()
            .limit(limit)
            .read_to_vec()?)
    }
}
