//! Pool of connections to servers.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::uri::Scheme;
use hyper::client::conn::{http1, http2};
use lru::LruCache;
use lucarne_mint::store::Host;
use parking_lot::Mutex;

use crate::ending::ConnectionEnd;
use crate::expect::Withheld;
use crate::identity::TlsClient;
use crate::outgoing::Outgoing;
use crate::streams::{Stream, Streams};
use crate::target::Target;
use crate::upstream_proxy::UpstreamProxy;

/// Route of a connection: target, TLS identity of the server, upstream proxy and client
/// certificate. Only requests with the same route share a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    /// Host and port of the server.
    pub(crate) target: Target,
    /// Host that the server must prove by TLS; `None` for plain HTTP.
    pub(crate) tls: Option<Host>,
    /// Upstream proxy; `None` for a direct connection.
    pub(crate) through: Option<Arc<UpstreamProxy>>,
    /// True if the upstream proxy receives requests to forward, instead of CONNECT.
    pub(crate) forwarded: bool,
    /// Client certificate for the server, if it requests one.
    pub(crate) client: Option<Arc<TlsClient>>,
    /// The only client connection that may use the connections of this route; `None` if all may.
    pub(crate) owner: Option<u64>,
}

impl Route {
    /// Returns the upstream proxy that forwards the requests of this route.
    pub(crate) fn forwarder(&self) -> Option<&UpstreamProxy> {
        self.through.as_deref().filter(|_| self.forwarded)
    }

    pub(crate) fn scheme(&self) -> Scheme {
        match self.tls {
            Some(_) => Scheme::HTTPS,
            None => Scheme::HTTP,
        }
    }

    /// Returns the default port of the scheme.
    pub(crate) fn port(&self) -> u16 {
        match self.tls {
            Some(_) => 443,
            None => 80,
        }
    }
}

/// A connection that accepts a request.
pub(crate) enum Connection {
    /// HTTP/1: one request at a time.
    Http1(Http1),
    /// HTTP/2: many concurrent requests, and a stream for one of them.
    Http2(Http2, Arc<Stream>),
}

impl Connection {
    /// Returns the record of how the connection ends.
    pub(crate) fn end(&self) -> ConnectionEnd {
        match self {
            Connection::Http1(connection) => connection.end.clone(),
            Connection::Http2(connection, _) => connection.end.clone(),
        }
    }

    /// Returns the stream for the request, if the connection is HTTP/2.
    pub(crate) fn stream(&self) -> Option<Arc<Stream>> {
        match self {
            Connection::Http1(_) => None,
            Connection::Http2(_, stream) => Some(stream.clone()),
        }
    }
}

/// An HTTP/1 connection, for one request at a time.
pub(crate) struct Http1 {
    pub(crate) sender: http1::SendRequest<Outgoing>,
    pub(crate) end: ConnectionEnd,
}

/// An HTTP/2 connection, for many concurrent requests of one client.
#[derive(Clone)]
pub(crate) struct Http2 {
    pub(crate) sender: http2::SendRequest<Outgoing>,
    pub(crate) end: ConnectionEnd,
    pub(crate) streams: Arc<Streams>,
}

impl Http2 {
    /// Reserves a stream for a request of this client, see [`Streams::reserve`].
    pub(crate) fn reserve(&self, client: IpAddr) -> Option<Connection> {
        let stream = self.streams.reserve(client)?;
        Some(Connection::Http2(self.clone(), stream))
    }
}

/// Connections to servers by route: idle HTTP/1 connections, and HTTP/2 connections.
///
/// Every client may receive an idle connection. Therefore it must carry no state of one client:
///
/// - An HTTP/2 connection serves other clients after its streams have ended ([`Streams`]).
/// - A connection with NTLM or Negotiate authentication belongs to its client ([`Route::owner`]).
/// - The configuration selects client certificates by server, the same for all clients. Connections
///   and TLS sessions of different certificates are separate ([`TlsClient`]). rustls supports no
///   authentication after the handshake.
/// - `Proxy-Authorization` of a client is removed. The credentials for an upstream proxy come from
///   the configuration and are part of the route. A connection with a 407 response is closed.
/// - The proxy sends no TLS early data, stores no cookies, and exports no keys of a connection.
/// - A connection after an upgrade or CONNECT never returns to the pool.
///
/// At the limit, the least recently used route is dropped.
pub(crate) struct Pool {
    routes: Mutex<LruCache<Route, Entry>>,
    keep: Duration,
}

/// Limit of idle HTTP/1 connections of one route.
const IDLE_EACH: usize = 32;

/// Limit of HTTP/2 connections of one route. A connection beyond the limit takes the place of an
/// idle one, or else of the oldest one, which then ends after its last stream.
const HTTP2_EACH: usize = 256;

#[derive(Default)]
struct Entry {
    /// The most recently used connection is last.
    http1: Vec<(Http1, Instant)>,
    http2: Vec<(Http2, Instant)>,
    /// Whether the server chose HTTP/2 when HTTP/1.1 and HTTP/2 were offered, if known.
    speaks_http2: Option<bool>,
    /// End of the time in which the server gets HTTP/1.1 only.
    http1_until: Option<Instant>,
}

/// Time for which a server gets HTTP/1.1 only, after it required HTTP/1.1.
const HTTP1_ONLY: Duration = Duration::from_secs(600);

impl Entry {
    fn requires_http1(&self) -> bool {
        self.http1_until.is_some_and(|end| Instant::now() < end)
    }
}

impl Pool {
    /// Creates a pool for `max` routes. Idle connections are kept for `keep`.
    pub(crate) fn new(max: usize, keep: Duration) -> Arc<Self> {
        let max = NonZeroUsize::new(max).unwrap_or(NonZeroUsize::MIN);
        Arc::new(Pool {
            routes: Mutex::new(LruCache::new(max)),
            keep,
        })
    }

    /// Returns whether the server speaks HTTP/2, if known.
    pub(crate) fn speaks_http2(&self, route: &Route) -> Option<bool> {
        let mut routes = self.routes.lock();
        let entry = routes.get(route)?;
        if entry.requires_http1() {
            return Some(false);
        }
        entry.speaks_http2
    }

    /// Returns whether the server has recently required HTTP/1.1.
    pub(crate) fn requires_http1(&self, route: &Route) -> bool {
        let mut routes = self.routes.lock();
        routes.get(route).is_some_and(Entry::requires_http1)
    }

    /// Uses HTTP/1.1 only for this server, for the next ten minutes. Requests in progress continue.
    pub(crate) fn require_http1(&self, route: &Route) {
        let mut routes = self.routes.lock();
        let entry = routes.get_or_insert_mut(route.clone(), Entry::default);
        entry.http2.clear();
        entry.http1_until = Some(Instant::now() + HTTP1_ONLY);
    }

    /// Records the protocol that the server chose when HTTP/1.1 and HTTP/2 were offered.
    pub(crate) fn learn(&self, route: &Route, speaks_http2: bool) {
        let mut routes = self.routes.lock();
        let entry = routes.get_or_insert_mut(route.clone(), Entry::default);
        entry.speaks_http2 = Some(speaks_http2);
    }

    /// Takes an idle HTTP/1 connection of this route, the most recently used first.
    pub(crate) fn http1(&self, route: &Route) -> Option<Http1> {
        let mut routes = self.routes.lock();
        let idle = &mut routes.get_mut(route)?.http1;
        idle.retain(|(connection, since)| {
            !connection.sender.is_closed() && since.elapsed() < self.keep
        });
        // A connection that still sends the body of a request with an early response is not ready.
        let ready = idle
            .iter()
            .rposition(|(connection, _)| connection.sender.is_ready())?;
        Some(idle.remove(ready).0)
    }

    /// Takes a connection for a request of an HTTP/2 client. Prefers HTTP/2. Uses HTTP/1 only if
    /// the server speaks only HTTP/1, because HTTP/1 may lose parts of these requests, for example
    /// the trailers of gRPC.
    pub(crate) fn for_http2(&self, route: &Route, client: IpAddr) -> Option<Connection> {
        if let Some(connection) = self.http2(route, client) {
            return Some(connection);
        }
        match self.speaks_http2(route) {
            Some(false) => self.http1(route).map(Connection::Http1),
            Some(true) | None => None,
        }
    }

    /// Returns an HTTP/2 connection of this route with a stream for this client. Prefers
    /// connections whose last stream was of this client.
    pub(crate) fn http2(&self, route: &Route, client: IpAddr) -> Option<Connection> {
        let mut routes = self.routes.lock();
        let open = &mut routes.get_mut(route)?.http2;
        open.retain(|(connection, _)| !connection.sender.is_closed());
        let mut reserve = |own: bool| {
            let mut open = open.iter_mut();
            open.find_map(|(connection, used)| {
                let matches = connection.streams.are_of(client) == own;
                let reserved = matches.then(|| connection.reserve(client)).flatten()?;
                *used = Instant::now();
                Some(reserved)
            })
        };
        reserve(true).or_else(|| reserve(false))
    }

    /// Stores an HTTP/2 connection for further requests.
    pub(crate) fn share(&self, route: &Route, connection: Http2) {
        let mut routes = self.routes.lock();
        let entry = routes.get_or_insert_mut(route.clone(), Entry::default);
        if entry.requires_http1() {
            return;
        }
        if entry.http2.len() == HTTP2_EACH {
            let mut open = entry.http2.iter();
            let idle = open.position(|(connection, _)| connection.streams.are_idle());
            entry.http2.remove(idle.unwrap_or(0));
        }
        entry.http2.push((connection, Instant::now()));
    }

    /// Stores an HTTP/1 connection whose response has been read.
    pub(crate) fn put(&self, route: &Route, connection: Http1) {
        if connection.sender.is_closed() {
            return;
        }
        let mut routes = self.routes.lock();
        let entry = routes.get_or_insert_mut(route.clone(), Entry::default);
        if entry.http1.len() == IDLE_EACH {
            entry.http1.remove(0);
        }
        entry.http1.push((connection, Instant::now()));
    }

    /// Drops connections that have been idle for too long.
    pub(crate) fn sweep(&self) {
        for (_, entry) in self.routes.lock().iter_mut() {
            let stale = |used: &Instant| used.elapsed() >= self.keep;
            entry
                .http1
                .retain(|(connection, used)| !connection.sender.is_closed() && !stale(used));
            entry.http2.retain_mut(|(connection, used)| {
                if !connection.streams.are_idle() {
                    *used = Instant::now();
                }
                !connection.sender.is_closed() && !stale(&*used)
            });
        }
    }

    /// Drops the idle connections of an owner.
    pub(crate) fn forget(&self, owner: u64) {
        let mut routes = self.routes.lock();
        let owned =
            |(route, _): (&Route, &Entry)| (route.owner == Some(owner)).then(|| route.clone());
        let owned: Vec<Route> = routes.iter().filter_map(owned).collect();
        for route in &owned {
            routes.pop(route);
        }
    }

    pub(crate) fn clear(&self) {
        self.routes.lock().clear();
    }
}

/// An HTTP/1 connection in use. The connection returns to the pool after its response has been
/// read.
pub(crate) struct Lease {
    pub(crate) pool: Arc<Pool>,
    pub(crate) route: Arc<Route>,
    pub(crate) connection: Http1,
    /// Ends the connection after this response, if the body was never sent.
    pub(crate) withheld: Option<Withheld>,
    /// Called if the response lasts until the end of the connection, and the connection ends
    /// without `close_notify`.
    pub(crate) cut: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Lease {
    pub(crate) fn release(mut self) {
        if self.connection.end.is_unannounced()
            && let Some(cut) = self.cut.take()
        {
            cut();
        }
        if self.withheld.is_none() {
            self.pool.put(&self.route, self.connection);
        }
    }
}

/// The part of a connection that a response occupies until its end.
pub(crate) enum Occupied {
    Http1(Lease),
    Http2 { _stream: Arc<Stream> },
}

impl Occupied {
    /// Releases the connection for other requests, after the response has been read.
    pub(crate) fn release(self) {
        if let Occupied::Http1(lease) = self {
            lease.release();
        }
    }
}
