//! Client certificates that the proxy presents to servers.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lucarne_mint::store::read_pair;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::TlsConnector;

use crate::pattern::HostPattern;
use crate::verify::ByHost;

/// Certificate and key that the proxy presents to servers that request a client certificate.
#[derive(Clone, Debug)]
pub struct Identity(Arc<CertifiedKey>);

impl Identity {
    /// Reads a chain (client certificate first) and its key, both in PEM.
    ///
    /// # Errors
    /// If the PEM cannot be parsed, or the key does not belong to the certificate.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, lucarne_mint::MintError> {
        let (chain, key) = read_pair(certificates, key)?;
        let certified = CertifiedKey::from_der(chain, key, &default_provider())?;
        Ok(Identity(Arc::new(certified)))
    }
}

/// A client certificate, and the servers that receive it.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// Hosts that receive the certificate. The pattern is compared with the host that the server
    /// proves by TLS.
    pub hosts: HostPattern,
    /// The certificate with its key.
    pub identity: Identity,
}

/// TLS client with one certificate, or without one. Two clients are equal only if they are the same
/// object, so a connection or a resumed session is never used with another certificate.
pub(crate) struct TlsClient {
    /// Offers HTTP/1.1 only.
    pub(crate) http1: ByHost<TlsConnector>,
    /// Offers HTTP/2 and HTTP/1.1.
    pub(crate) both: ByHost<TlsConnector>,
}

impl TlsClient {
    /// Creates the client that `configs` describe, with the certificate of `identity`.
    pub(crate) fn new(configs: &ByHost<ClientConfig>, identity: Option<&Identity>) -> Self {
        let configs = configs.map(|config| {
            let mut config = config.clone();
            // rustls keys sessions by server name without the port, and a session keeps the client
            // certificate of its first handshake. So each client has its own sessions.
            config.resumption = Resumption::default();
            if let Some(Identity(certified)) = identity {
                let resolver = SingleCertAndKey::from(certified.clone());
                config.client_auth_cert_resolver = Arc::new(resolver);
            }
            config
        });
        TlsClient {
            http1: configs.map(|config| offering(config, &[b"http/1.1"])),
            both: configs.map(|config| offering(config, &[b"h2", b"http/1.1"])),
        }
    }
}

impl PartialEq for TlsClient {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for TlsClient {}

impl Hash for TlsClient {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self, state);
    }
}

impl std::fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsClient").finish_non_exhaustive()
    }
}

fn offering(config: &ClientConfig, protocols: &[&[u8]]) -> TlsConnector {
    let mut config = config.clone();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config).into()
}
