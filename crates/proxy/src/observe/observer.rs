//! The observer: what the proxy holds.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use rustls_pki_types::CertificateDer;

use super::Options;

/// Why an observer cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The log list cannot be had.
    #[error("cannot read the log list {from}: {why}")]
    LogList {
        /// File or URL.
        from: String,
        /// What is wrong, and what to do.
        why: String,
    },
}

/// Records what servers present. Cheap to call; dropping the last one ends its work.
#[derive(Debug)]
pub struct Observer {}

impl Observer {
    /// Reads the log list and starts the work behind. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// A log list that cannot be read: without it the answers would be wrong.
    pub async fn start(_options: Options) -> Result<Arc<Self>, ObserveError> {
        Ok(Arc::new(Observer {}))
    }

    /// A server presented this chain (leaf first) for `host`.
    ///
    /// `ocsp` is the stapled OCSP response, `tls_scts` the SignedCertificateTimestampList of the
    /// TLS extension (RFC 6962 section 3.3); empty where there was none. Never blocks.
    pub fn seen(&self, _host: &str, _chain: &[CertificateDer<'_>], _ocsp: &[u8], _tls_scts: &[u8]) {
    }

    /// Adds the observer's metrics.
    pub fn register(&self, _registry: &mut Registry) {}
}
