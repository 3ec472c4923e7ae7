//! TLS with a certificate that can be replaced while connections are open, or that is selected by
//! the requested name.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use lucarne_x509::pem::{self, PemError};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::Acceptor as ClientHello;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

use crate::served_certificate::ServedCertificate;

/// The certificate of a listener, and the handle to replace it. Open connections keep their
/// certificate.
pub struct Tls(Certificates);

enum Certificates {
    /// A certificate for all clients.
    Given(ArcSwap<Given>),
    ByName(Arc<ByName>),
}

/// A certificate with its configuration.
struct Given {
    config: Arc<ServerConfig>,
    certificate: ServedCertificate,
}

/// Finds the configuration for a client that requested this host.
type ByName = dyn Fn(String) -> Pin<Box<dyn Future<Output = Resolved> + Send>> + Send + Sync;

type Resolved = io::Result<Arc<ServerConfig>>;

/// The reasons why a certificate and a key cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate file is not PEM, or has no certificate.
    #[error("the certificate file cannot be read as PEM certificates: {0}")]
    Certificate(PemError),
    /// The key file is not PEM, or has no private key.
    #[error("the key file cannot be read as a PEM private key: {0}")]
    Key(PemError),
    /// The key belongs to another certificate.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
    /// The key cannot be used.
    #[error("the certificate and the key cannot be served: {0}")]
    Pair(rustls::Error),
    /// The first certificate cannot be parsed.
    #[error("the first certificate of the file cannot be read: {0}")]
    Leaf(#[from] lucarne_ct::DerError),
}

/// The error of TLS is not a source, because the text has its words already.
impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch) => {
                TlsError::Mismatch
            }
            other => TlsError::Pair(other),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Creates TLS with this certificate chain (leaf first) and key, both PEM.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Arc<Self>, TlsError> {
        let given = ArcSwap::from_pointee(given(certificates, key)?);
        Ok(Arc::new(Tls(Certificates::Given(given))))
    }

    /// Creates TLS with the configuration that `find` returns for the requested host: the name in
    /// the ClientHello (SNI), or the local address of the connection without one. If `find` fails,
    /// the connection is closed.
    pub fn by_name<F>(find: impl Fn(String) -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = Resolved> + Send + 'static,
    {
        Arc::new(Tls(Certificates::ByName(Arc::new(move |name| {
            Box::pin(find(name))
        }))))
    }

    /// Replaces certificate and key for new connections. If the new certificate or key is invalid,
    /// the old certificate and key stay. Has no effect if certificates are selected by name.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn replace(&self, certificates: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let new = given(certificates, key)?;
        if let Certificates::Given(given) = &self.0 {
            given.store(Arc::new(new));
        }
        Ok(())
    }

    /// Returns the current certificate of all clients; `None` if certificates are selected by name.
    pub fn certificate(&self) -> Option<ServedCertificate> {
        match &self.0 {
            Certificates::Given(given) => Some(given.load().certificate.clone()),
            Certificates::ByName(_) => None,
        }
    }

    pub(crate) fn acceptor(&self) -> Acceptor {
        match &self.0 {
            Certificates::Given(given) => {
                Acceptor::Given(TlsAcceptor::from(given.load().config.clone()))
            }
            Certificates::ByName(find) => Acceptor::ByName(find.clone()),
        }
    }
}

/// Performs the handshake with one client.
pub(crate) enum Acceptor {
    Given(TlsAcceptor),
    ByName(Arc<ByName>),
}

impl Acceptor {
    pub(crate) async fn accept(self, tcp: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let find = match self {
            Acceptor::Given(acceptor) => return acceptor.accept(tcp).await,
            Acceptor::ByName(find) => find,
        };
        let address = tcp.local_addr()?.ip();
        let begun = LazyConfigAcceptor::new(ClientHello::default(), tcp).await?;
        let name = begun.client_hello().server_name().map(str::to_owned);
        let config = find(name.unwrap_or_else(|| address.to_string())).await?;
        begun.into_stream(config).await
    }
}

fn given(certificates: &[u8], key: &[u8]) -> Result<Given, TlsError> {
    let chain = pem::certificates(certificates).map_err(TlsError::Certificate)?;
    let chain: Vec<_> = chain.into_iter().map(CertificateDer::from).collect();
    let leaf = chain.first().cloned().unwrap_or_else(|| Vec::new().into());
    let certificate = ServedCertificate::read(leaf)?;
    let key = pem::private_key(key).map_err(TlsError::Key)?;
    let key = PrivateKeyDer::try_from(key).map_err(|why| rustls::Error::General(why.to_owned()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Given {
        config: Arc::new(config),
        certificate,
    })
}
