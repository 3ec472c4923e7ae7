//! TLS whose certificate can be replaced while connections go on.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The certificate of a listener, and the handle to replace it. Connections
/// that are open keep the one they began with.
pub struct Tls(ArcSwap<ServerConfig>);

/// Why a certificate and a key cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Not PEM, or no certificate in it.
    #[error("the certificate file cannot be read as PEM certificates: {0}")]
    Certificate(String),
    /// Not PEM, or no private key in it.
    #[error("the key file cannot be read as a PEM private key: {0}")]
    Key(String),
    /// They do not go together, or the key cannot be used.
    #[error("the certificate and the key cannot be served: {0}")]
    Pair(#[from] rustls::Error),
}

impl Tls {
    /// TLS with this certificate chain (leaf first) and key, both PEM.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Arc<Self>, TlsError> {
        Ok(Arc::new(Tls(ArcSwap::from(config(certificates, key)?))))
    }

    /// Replaces certificate and key, from the next connection on. If they are
    /// no good the old ones stay.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn replace(&self, certificates: &[u8], key: &[u8]) -> Result<(), TlsError> {
        self.0.store(config(certificates, key)?);
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.load_full())
    }
}

fn config(certificates: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(certificates)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::Certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::Certificate(
            "there is no certificate in it".into(),
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| TlsError::Key(e.to_string()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
