//! As whom the proxy comes to servers by TLS.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lucarne_mint::store::read_pair;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::TlsConnector;

use crate::pattern::HostPattern;

/// A certificate, with its key, that the proxy shows to servers that ask for
/// one.
#[derive(Clone, Debug)]
pub struct Identity(Arc<CertifiedKey>);

impl Identity {
    /// The identity of a chain (the certificate first) and its key, both in PEM.
    ///
    /// # Errors
    /// What cannot be read, or a key that is not the certificate's.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, lucarne_mint::MintError> {
        let (chain, key) = read_pair(certificates, key)?;
        let certified = CertifiedKey::from_der(chain, key, &default_provider())?;
        Ok(Identity(Arc::new(certified)))
    }
}

/// An identity, and the servers that it is shown to.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The hosts: what they prove to be by TLS counts.
    pub hosts: HostPattern,
    /// The certificate.
    pub identity: Identity,
}

/// TLS with servers as one client: with a certificate, or with none. Two are
/// equal if they are one and the same: nothing that was set up as one, be it a
/// connection or a session that resumes, is ever used as another.
pub(crate) struct TlsClient {
    /// Offers HTTP/1.1 alone.
    pub(crate) http1: TlsConnector,
    /// Offers HTTP/2 as well.
    pub(crate) both: TlsConnector,
}

impl TlsClient {
    /// The client that `config` describes, showing `identity`.
    pub(crate) fn new(config: &ClientConfig, identity: Option<&Identity>) -> Self {
        let mut config = config.clone();
        // Sessions are kept by the server's name, whatever its port, and come
        // with the certificate they began with: each client has its own.
        config.resumption = Resumption::default();
        if let Some(Identity(certified)) = identity {
            let resolver = SingleCertAndKey::from(certified.clone());
            config.client_auth_cert_resolver = Arc::new(resolver);
        }
        TlsClient {
            http1: offering(&config, &[b"http/1.1"]),
            both: offering(&config, &[b"h2", b"http/1.1"]),
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
