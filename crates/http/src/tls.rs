//! TLS whose certificate can be replaced while connections go on, or is chosen
//! by the name that a client asks for.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::Acceptor as ClientHello;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

/// The certificate of a listener, and the handle to replace it. Connections
/// that are open keep the one they began with.
pub struct Tls(Certificates);

enum Certificates {
    /// One for all.
    Given(ArcSwap<ServerConfig>),
    ByName(Arc<ByName>),
}

/// Finds what to serve a client that asked for this host.
type ByName = dyn Fn(String) -> Pin<Box<dyn Future<Output = Resolved> + Send>> + Send + Sync;

type Resolved = io::Result<Arc<ServerConfig>>;

/// The reasons why a certificate and a key cannot be served.
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
        let config = ArcSwap::from(config(certificates, key)?);
        Ok(Arc::new(Tls(Certificates::Given(config))))
    }

    /// TLS with what `find` has for the host that the client asks for: the name
    /// in its ClientHello (SNI), and without one the address that it connected
    /// to. Where there is nothing the connection is closed.
    pub fn by_name<F>(find: impl Fn(String) -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = Resolved> + Send + 'static,
    {
        Arc::new(Tls(Certificates::ByName(Arc::new(move |name| {
            Box::pin(find(name))
        }))))
    }

    /// Replaces certificate and key, from the next connection on. If they are
    /// no good the old ones stay. Nothing changes where they are chosen by name.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn replace(&self, certificates: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let config = config(certificates, key)?;
        if let Certificates::Given(given) = &self.0 {
            given.store(config);
        }
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> Acceptor {
        match &self.0 {
            Certificates::Given(config) => Acceptor::Given(TlsAcceptor::from(config.load_full())),
            Certificates::ByName(find) => Acceptor::ByName(find.clone()),
        }
    }
}

/// Shakes hands with one client.
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
