//! Connections to servers: TCP, TLS, and which HTTP they speak.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::HeaderValue;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use lucarne_mint::store::Host;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, KeyLog, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use crate::dial::Dialer;
use crate::failure::{Failure, Step};
use crate::identity::{ClientCertificate, TlsClient};
use crate::limits::{FIELDS, Limits, STREAM_WINDOW};
use crate::observe::Observer;
use crate::pattern::HostPattern;
use crate::pool::{Connection, Http1, Http2, Pool, Route};
use crate::relay::{self, Link};
use crate::rules::Rules;
use crate::stream::Rewind;
use crate::target::Target;
use crate::upstream_proxy::{UpstreamProxy, UpstreamRoute};
use crate::verify::{Verifier, explain};

/// The servers that are believed.
#[derive(Clone, Debug)]
pub struct Trust {
    /// The CAs that may vouch for servers.
    pub roots: Arc<RootCertStore>,
    /// Believe every server. The proxy's clients cannot tell then whom they
    /// talk to.
    pub insecure: bool,
}

/// The ways to servers, and the certificates that they are shown.
#[derive(Clone, Debug, Default)]
pub struct UpstreamRoutes {
    /// The upstream proxies: the first that matches decides, and where none
    /// does nobody is asked.
    pub through: Vec<UpstreamRoute>,
    /// The certificates that servers are shown: the first that matches.
    pub shown: Vec<ClientCertificate>,
}

/// Reaches servers.
pub(crate) struct Upstream {
    pub(crate) dialer: Dialer,
    pub(crate) pool: Arc<Pool>,
    verifier: Arc<Verifier>,
    through: Vec<(HostPattern, Option<Arc<UpstreamProxy>>)>,
    config: ClientConfig,
    /// Shows no certificate.
    pub(crate) nobody: TlsClient,
    shown: ArcSwap<Vec<(HostPattern, Arc<TlsClient>)>>,
    patience: Duration,
    pub(crate) answer: Duration,
    head_bytes: usize,
}

impl Upstream {
    pub(crate) fn new(
        rules: Arc<ArcSwap<Rules>>,
        trust: &Trust,
        upstream_routes: UpstreamRoutes,
        limits: &Limits,
        observer: Option<Arc<Observer>>,
        key_log: Option<Arc<dyn KeyLog>>,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = trust.roots.clone();
        let verifier = Verifier::new(roots, trust.insecure, observer, provider.clone())
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let verifier = Arc::new(verifier);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_no_client_auth();
        if let Some(key_log) = key_log {
            config.key_log = key_log;
        }
        let through = upstream_routes.through.into_iter();
        let upstream = Upstream {
            dialer: Dialer::new(rules, limits.connect, limits.idle),
            pool: Pool::new(limits.idle_connections, limits.keep),
            verifier,
            through: through
                .map(|way| (way.hosts, way.through.map(Arc::new)))
                .collect(),
            nobody: TlsClient::new(&config, None),
            config,
            shown: ArcSwap::default(),
            patience: limits.connect,
            answer: limits.answer,
            head_bytes: limits.head_bytes,
        };
        upstream.show(&upstream_routes.shown);
        Ok(upstream)
    }

    /// Shows these certificates from the next connection on.
    pub(crate) fn show(&self, shown: &[ClientCertificate]) {
        let client = |ClientCertificate { hosts, identity }: &ClientCertificate| {
            let client = TlsClient::new(&self.config, Some(identity));
            (hosts.clone(), Arc::new(client))
        };
        let shown = shown.iter().map(client).collect();
        self.shown.store(Arc::new(shown));
    }

    /// The way to `target`, which must prove to be `tls`. The host that is
    /// connected to decides by which proxy, the one that is proven as whom.
    pub(crate) fn route(&self, target: Target, tls: Option<Host>) -> Route {
        let through = self.proxy_for(&target).cloned();
        let client = tls.as_ref().and_then(|host| {
            let server = Target {
                host: host.clone(),
                port: target.port,
            };
            let shown = self.shown.load();
            let matching = shown.iter().find(|(hosts, _)| hosts.matches(&server));
            matching.map(|(_, client)| client.clone())
        });
        Route {
            target,
            tls,
            through,
            forwarded: false,
            client,
        }
    }

    fn proxy_for(&self, target: &Target) -> Option<&Arc<UpstreamProxy>> {
        let way = self.through.iter().find(|(hosts, _)| hosts.matches(target));
        way.and_then(|(_, proxy)| proxy.as_ref())
    }

    /// A connection that is passed on as it is. Where a proxy is to be asked
    /// for it and does not give it, nothing else is tried. `via`: see
    /// [`tunnel`](Self::tunnel).
    pub(crate) async fn link(
        &self,
        target: &Target,
        via: &HeaderValue,
    ) -> Result<Rewind<Link>, Failure> {
        let link = match self.proxy_for(target) {
            None => Either::Left(self.dialer.connect(target).await?),
            Some(proxy) => {
                let tunnel = relay::tunnel(self, proxy, target, via).await?;
                Either::Right(TokioIo::new(tunnel))
            }
        };
        Ok(Rewind::new(Bytes::new(), link))
    }

    /// A new connection. HTTP/2 is offered only if `http2`; whether the server
    /// wants it is remembered. Without TLS there is nothing to offer it by:
    /// whoever asks for it knows (RFC 9113 3.3).
    pub(crate) async fn connect(
        &self,
        route: &Route,
        http2: bool,
        via: &HeaderValue,
    ) -> Result<Connection, Failure> {
        if let Some(proxy) = route.forwarder() {
            let stream = relay::reach(self, proxy, &route.target).await?;
            return self.speak_http1(stream).await.map(Connection::Http1);
        }
        let link = self.link(&route.target, via).await?;
        let Some(host) = &route.tls else {
            return match http2 {
                true => self.speak_http2(link).await.map(Connection::Http2),
                false => self.speak_http1(link).await.map(Connection::Http1),
            };
        };
        let client = route.client.as_deref().unwrap_or(&self.nobody);
        let connector = if http2 { &client.both } else { &client.http1 };
        let stream = self.secure(connector, link, host).await?;
        let chosen = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if http2 {
            self.pool.learn(route, chosen);
        }
        match chosen {
            true => self.speak_http2(stream).await.map(Connection::Http2),
            false => self.speak_http1(stream).await.map(Connection::Http1),
        }
    }

    /// TLS with who must prove to be `host`.
    pub(crate) async fn secure<S>(
        &self,
        connector: &TlsConnector,
        stream: S,
        host: &Host,
    ) -> Result<TlsStream<S>, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match host.ip() {
            Some(ip) => ServerName::IpAddress(ip.into()),
            None => ServerName::try_from(host.to_string())
                .map_err(|_| Failure::Tls(format!("{host} is no name of a server.")))?,
        };
        match timeout(self.patience, connector.connect(name, stream)).await {
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

    pub(crate) async fn speak_http1<S>(&self, stream: S) -> Result<Http1, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let handshake = http1::Builder::new()
            .title_case_headers(true)
            .max_header_size(self.head_bytes)
            .max_headers(FIELDS)
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
            .initial_stream_window_size(STREAM_WINDOW)
            // Clients share the connection, and a stream that one of them does not read
            // must not use up what the others' need: streams alone bound what is held.
            .initial_connection_window_size(i32::MAX as u32)
            .max_header_list_size(u32::try_from(self.head_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(15))
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(closed)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Returns what to say of an error of HTTP with the server.
pub(crate) fn closed(error: hyper::Error) -> Failure {
    if let Some(alert) = alert(&error) {
        return Failure::Tls(format!(
            "The server broke the connection off: it says {alert:?}."
        ));
    }
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

/// Returns what a server says by TLS, after the handshake: that it does not like the
/// certificate that it was shown, say.
fn alert(error: &hyper::Error) -> Option<rustls::AlertDescription> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let inner = match error.downcast_ref::<std::io::Error>() {
            Some(io) => io
                .get_ref()
                .map(|inner| inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
        if let Some(rustls::Error::AlertReceived(alert)) =
            inner.and_then(|inner| inner.downcast_ref())
        {
            return Some(*alert);
        }
        cause = inner;
    }
    None
}
