//! Connections to servers: route, TLS identity and HTTP version.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::HeaderValue;
use hyper_util::rt::TokioIo;
use lucarne_mint::store::Host;
use rustls::{ClientConfig, KeyLog};
use tokio_util::either::Either;

use crate::connector::Connector;
use crate::dial::Dialer;
use crate::failure::Failure;
use crate::identity::{ClientCertificate, TlsClient};
use crate::limits::Limits;
use crate::observe::Observer;
use crate::pattern::HostPattern;
use crate::pool::{Connection, Http2, Pool, Route};
use crate::relay::{self, Link};
use crate::rules::Rules;
use crate::stream::Rewind;
use crate::target::Target;
use crate::upstream_proxy::{UpstreamProxy, UpstreamRoute};
use crate::verify::{ByHost, Trust, Verification};

/// Upstream proxies and client certificates.
#[derive(Clone, Debug, Default)]
pub struct UpstreamRoutes {
    /// Upstream proxies; the first match decides. Without a match, the connection is direct.
    pub through: Vec<UpstreamRoute>,
    /// Client certificates for servers; the first match decides.
    pub shown: Vec<ClientCertificate>,
}

/// Opens connections to servers.
pub(crate) struct Upstream {
    pub(crate) connector: Connector,
    pub(crate) pool: Arc<Pool>,
    through: Vec<(HostPattern, Option<Arc<UpstreamProxy>>)>,
    configs: ByHost<ClientConfig>,
    shown: ArcSwap<Vec<(HostPattern, Arc<TlsClient>)>>,
}

impl Upstream {
    /// `resembled` is the number of hosts whose minted certificates resemble those of the server.
    pub(crate) fn new(
        rules: Arc<ArcSwap<Rules>>,
        trust: Trust,
        upstream_routes: UpstreamRoutes,
        limits: &Limits,
        (observer, resembled): (Option<Arc<Observer>>, usize),
        key_log: Option<Arc<dyn KeyLog>>,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let verification = Verification::new(trust, observer, resembled);
        let configs = verification.verifiers().map(|verifier| {
            let mut config = builder
                .clone()
                .dangerous()
                .with_custom_certificate_verifier(verifier.clone())
                .with_no_client_auth();
            if let Some(key_log) = &key_log {
                config.key_log = key_log.clone();
            }
            config
        });
        let through = upstream_routes.through.into_iter();
        let upstream = Upstream {
            connector: Connector {
                dialer: Dialer::new(rules, limits.connect, limits.idle),
                verification,
                nobody: TlsClient::new(&configs, None),
                patience: limits.connect,
                response: limits.response,
                idle: limits.idle,
                head_bytes: limits.head_bytes,
            },
            pool: Pool::new(limits.idle_connections, limits.keep),
            through: through
                .map(|way| (way.hosts, way.through.map(Arc::new)))
                .collect(),
            configs,
            shown: ArcSwap::default(),
        };
        upstream.show(&upstream_routes.shown);
        Ok(upstream)
    }

    /// Replaces the client certificates for new connections.
    pub(crate) fn show(&self, shown: &[ClientCertificate]) {
        let client = |ClientCertificate { hosts, identity }: &ClientCertificate| {
            let client = TlsClient::new(&self.configs, Some(identity));
            (hosts.clone(), Arc::new(client))
        };
        let shown = shown.iter().map(client).collect();
        self.shown.store(Arc::new(shown));
    }

    /// Returns the route to `target`, which must have a certificate for `tls`. The target selects
    /// the upstream proxy; the host of TLS selects the client certificate.
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
            owner: None,
        }
    }

    fn proxy_for(&self, target: &Target) -> Option<&Arc<UpstreamProxy>> {
        let way = self.through.iter().find(|(hosts, _)| hosts.matches(target));
        way.and_then(|(_, proxy)| proxy.as_ref())
    }

    /// Returns whether connections to this target go through an upstream proxy.
    pub(crate) fn has_proxy(&self, target: &Target) -> bool {
        self.proxy_for(target).is_some()
    }

    /// Opens a connection for forwarding bytes. If the upstream proxy fails, no other route is
    /// tried. For `via` see [`tunnel`](Self::tunnel).
    pub(crate) async fn link(
        &self,
        target: &Target,
        via: &HeaderValue,
    ) -> Result<Rewind<Link>, Failure> {
        let link = match self.proxy_for(target) {
            None => Either::Left(self.connector.dialer.connect(target).await?),
            Some(proxy) => {
                let tunnel = relay::tunnel(&self.connector, proxy, target, via).await?;
                Either::Right(TokioIo::new(tunnel))
            }
        };
        Ok(Rewind::new(Bytes::new(), link))
    }

    /// Opens a new connection. Offers HTTP/2 over TLS only if `http2` has a client for the
    /// connection, and if the server has not required HTTP/1.1, and records the server's choice.
    /// Without TLS, `http2` selects HTTP/2 directly (RFC 9113, section 3.3).
    pub(crate) async fn connect(
        &self,
        route: &Route,
        http2: Option<IpAddr>,
        via: &HeaderValue,
    ) -> Result<Connection, Failure> {
        let connector = &self.connector;
        if let Some(proxy) = route.forwarder() {
            let stream = relay::reach(connector, proxy, &route.target).await?;
            return connector.speak_http1(stream).await.map(Connection::Http1);
        }
        let link = self.link(&route.target, via).await?;
        self.connect_over(link, route, http2).await
    }

    /// Opens a connection over an existing link to the target of the route.
    pub(crate) async fn connect_over(
        &self,
        link: Rewind<Link>,
        route: &Route,
        http2: Option<IpAddr>,
    ) -> Result<Connection, Failure> {
        let connector = &self.connector;
        let http2 = http2.filter(|_| !self.pool.requires_http1(route));
        let Some(host) = &route.tls else {
            return match http2 {
                Some(client) => reserve(&connector.speak_http2(link).await?, client),
                None => connector.speak_http1(link).await.map(Connection::Http1),
            };
        };
        let client = route.client.as_deref().unwrap_or(&connector.nobody);
        let tls = match http2 {
            Some(_) => &client.both,
            None => &client.http1,
        };
        let stream = connector.secure(tls, link, host).await?;
        let chosen = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if http2.is_some() {
            self.pool.learn(route, chosen);
        }
        match http2.filter(|_| chosen) {
            Some(client) => reserve(&connector.speak_http2(stream).await?, client),
            None => connector.speak_http1(stream).await.map(Connection::Http1),
        }
    }
}

/// Reserves the first stream of a new connection.
fn reserve(connection: &Http2, client: IpAddr) -> Result<Connection, Failure> {
    let why = "The server allows no streams on a new HTTP/2 connection \
               (SETTINGS_MAX_CONCURRENT_STREAMS is 0).";
    let reserved = connection.reserve(client);
    reserved.ok_or_else(|| Failure::Closed(why.to_owned()))
}
