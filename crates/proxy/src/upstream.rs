//! Connections to servers: TCP, TLS, and which HTTP they speak.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::dial::Dialer;
use crate::failure::{Failure, Step};
use crate::limits::Limits;
use crate::observe::Observer;
use crate::pool::{Connection, Http1, Http2, Pool, Route};
use crate::rules::Rules;
use crate::target::Target;
use crate::verify::{Verifier, explain};

/// Which servers are believed.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The CAs that may vouch for servers.
    pub roots: Arc<RootCertStore>,
    /// Believe every server. The proxy's clients cannot tell then whom they
    /// talk to.
    pub insecure: bool,
}

/// Reaches servers.
pub(crate) struct Upstream {
    pub(crate) dialer: Dialer,
    pub(crate) pool: Arc<Pool>,
    verifier: Arc<Verifier>,
    /// Offers HTTP/1.1 alone.
    http1: TlsConnector,
    /// Offers HTTP/2 as well.
    both: TlsConnector,
    patience: Duration,
    head_bytes: usize,
}

impl Upstream {
    pub(crate) fn new(
        rules: Arc<ArcSwap<Rules>>,
        trust: &Trust,
        limits: &Limits,
        observer: Option<Arc<Observer>>,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = trust.roots.clone();
        let verifier = Verifier::new(roots, trust.insecure, observer, provider.clone())
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let verifier = Arc::new(verifier);
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_no_client_auth();
        Ok(Upstream {
            dialer: Dialer::new(rules, limits.connect, limits.idle),
            pool: Pool::new(limits.idle_connections, limits.keep),
            verifier,
            http1: offering(&config, &[b"http/1.1"]),
            both: offering(&config, &[b"h2", b"http/1.1"]),
            patience: limits.connect,
            head_bytes: limits.head_bytes,
        })
    }

    /// A connection of TCP alone.
    pub(crate) async fn tcp(&self, target: &Target) -> Result<TcpStream, Failure> {
        self.dialer.connect(target).await
    }

    /// A new connection. HTTP/2 is offered only if `http2`; whether the server
    /// wants it is remembered. Without TLS there is nothing to offer it by:
    /// whoever asks for it knows (RFC 9113 3.3).
    pub(crate) async fn connect(&self, route: &Route, http2: bool) -> Result<Connection, Failure> {
        let tcp = self.tcp(&route.target).await?;
        if route.tls.is_none() && http2 {
            return self.speak_http2(tcp).await.map(Connection::Http2);
        }
        if route.tls.is_none() {
            return self.speak_http1(tcp).await.map(Connection::Http1);
        }
        let stream = self.secure(tcp, route, http2).await?;
        let chosen = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if http2 {
            self.pool.learn(route, chosen);
        }
        match chosen {
            true => self.speak_http2(stream).await.map(Connection::Http2),
            false => self.speak_http1(stream).await.map(Connection::Http1),
        }
    }

    async fn secure(
        &self,
        tcp: TcpStream,
        route: &Route,
        http2: bool,
    ) -> Result<TlsStream<TcpStream>, Failure> {
        let host = route.tls.as_ref().unwrap_or(&route.target.host);
        let name = match host.ip() {
            Some(ip) => ServerName::IpAddress(ip.into()),
            None => ServerName::try_from(host.to_string())
                .map_err(|_| Failure::Tls(format!("{host} is no name of a server.")))?,
        };
        let connector = if http2 { &self.both } else { &self.http1 };
        match timeout(self.patience, connector.connect(name, tcp)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(self.failed(&error, host.as_str())),
            Err(_) => Err(Failure::Timeout(Step::Handshake, self.patience)),
        }
    }

    fn failed(&self, error: &std::io::Error, host: &str) -> Failure {
        let inner = error
            .get_ref()
            .and_then(|e| e.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidCertificate(wrong)) => {
                Failure::Certificate(explain(wrong), self.verifier.facts(host).map(Box::new))
            }
            Some(rustls::Error::AlertReceived(alert)) => Failure::Tls(format!(
                "The server broke the TLS handshake off: it says {alert:?}."
            )),
            Some(rustls::Error::InvalidMessage(_)) => {
                Failure::Tls("The server does not speak TLS on this port.".to_owned())
            }
            Some(other) => Failure::Tls(format!("The TLS handshake failed: {other}.")),
            None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Failure::Tls("The server closed the connection in the TLS handshake.".to_owned())
            }
            None => Failure::Tls(format!("The TLS handshake failed: {error}.")),
        }
    }

    async fn speak_http1<S>(&self, stream: S) -> Result<Http1, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let handshake = http1::Builder::new()
            .title_case_headers(true)
            .max_header_size(self.head_bytes)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(closed)?;
        // Its end is told to whoever waits for an answer.
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }

    async fn speak_http2<S>(&self, stream: S) -> Result<Http2, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .max_header_list_size(u32::try_from(self.head_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(15))
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(closed)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

fn offering(config: &ClientConfig, protocols: &[&[u8]]) -> TlsConnector {
    let mut config = config.clone();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config).into()
}

/// What to say of an error of HTTP with the server.
pub(crate) fn closed(error: hyper::Error) -> Failure {
    let why = if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        "The server closed the connection before it answered.".to_owned()
    } else if error.is_parse() {
        format!("What the server answered is not HTTP: {error}.")
    } else {
        let cause = std::error::Error::source(&error).map_or(String::new(), |e| format!(": {e}"));
        format!("The exchange with the server broke off: {error}{cause}.")
    };
    Failure::Closed(why)
}
