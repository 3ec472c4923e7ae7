//! Connections to servers, kept for the next request.

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
use crate::target::Target;
use crate::upstream_proxy::UpstreamProxy;

/// The route of a connection: where it goes, by which way, whom it is secured
/// with, and as whom. It tells connections apart that must not be taken for
/// each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    /// Holds what is connected to.
    pub(crate) target: Target,
    /// The server that must prove who it is; `None`: plain HTTP.
    pub(crate) tls: Option<Host>,
    /// The proxy that is asked for the connection; `None`: nobody is.
    pub(crate) through: Option<Arc<UpstreamProxy>>,
    /// True if that one gets the requests to pass them on, and no CONNECT.
    pub(crate) forwarded: bool,
    /// The certificate that the server is shown if it asks for one.
    pub(crate) client: Option<Arc<TlsClient>>,
}

impl Route {
    /// The proxy that gets the requests to pass them on.
    pub(crate) fn forwarder(&self) -> Option<&UpstreamProxy> {
        self.through.as_deref().filter(|_| self.forwarded)
    }

    /// The scheme of its URLs.
    pub(crate) fn scheme(&self) -> Scheme {
        match self.tls {
            Some(_) => Scheme::HTTPS,
            None => Scheme::HTTP,
        }
    }

    /// The port that goes without saying.
    pub(crate) fn port(&self) -> u16 {
        match self.tls {
            Some(_) => 443,
            None => 80,
        }
    }
}

/// A connection that takes a request.
pub(crate) enum Connection {
    /// One request at a time.
    Http1(Http1),
    /// Many.
    Http2(Http2),
}

impl Connection {
    /// How it has ended, once it has.
    pub(crate) fn end(&self) -> ConnectionEnd {
        match self {
            Connection::Http1(connection) => connection.end.clone(),
            Connection::Http2(connection) => connection.end.clone(),
        }
    }
}

/// A connection of HTTP/1, one request at a time.
pub(crate) struct Http1 {
    pub(crate) sender: http1::SendRequest<Outgoing>,
    pub(crate) end: ConnectionEnd,
}

/// A connection of HTTP/2, for many requests.
#[derive(Clone)]
pub(crate) struct Http2 {
    pub(crate) sender: http2::SendRequest<Outgoing>,
    pub(crate) end: ConnectionEnd,
}

/// Idle connections by route. Bounded: what was used least recently goes.
pub(crate) struct Pool {
    routes: Mutex<LruCache<Route, Entry>>,
    keep: Duration,
}

/// Idle connections of one route.
const IDLE_EACH: usize = 32;

#[derive(Default)]
struct Entry {
    /// The one most recently used last.
    http1: Vec<(Http1, Instant)>,
    http2: Option<(Http2, Instant)>,
    /// True if the server chose HTTP/2 when it could.
    speaks_http2: Option<bool>,
}

impl Pool {
    /// Of at most so many routes with connections, each kept so long.
    pub(crate) fn new(most: usize, keep: Duration) -> Arc<Self> {
        let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Arc::new(Pool {
            routes: Mutex::new(LruCache::new(most)),
            keep,
        })
    }

    /// Returns whether the server speaks HTTP/2, if that is known.
    pub(crate) fn speaks_http2(&self, route: &Route) -> Option<bool> {
        self.routes.lock().get(route)?.speaks_http2
    }

    /// Remembers what the server chose when it could choose.
    pub(crate) fn learn(&self, route: &Route, speaks_http2: bool) {
        let mut routes = self.routes.lock();
        let entry = routes.get_or_insert_mut(route.clone(), Entry::default);
        entry.speaks_http2 = Some(speaks_http2);
    }

    /// An idle HTTP/1 connection.
    pub(crate) fn http1(&self, route: &Route) -> Option<Http1> {
        let mut routes = self.routes.lock();
        let idle = &mut routes.get_mut(route)?.http1;
        idle.retain(|(connection, since)| {
            !connection.sender.is_closed() && since.elapsed() < self.keep
        });
        // One that still sends the body of a request that was answered early
        // is not ready.
        let ready = idle
            .iter()
            .rposition(|(connection, _)| connection.sender.is_ready())?;
        Some(idle.remove(ready).0)
    }

    /// A connection for a request of HTTP/2: one that speaks it; one of HTTP/1
    /// only where the server is known to speak nothing else, for what such
    /// requests ask for may be lost there (trailers, which gRPC lives by).
    pub(crate) fn for_http2(&self, route: &Route) -> Option<Connection> {
        if let Some(connection) = self.http2(route) {
            return Some(Connection::Http2(connection));
        }
        match self.speaks_http2(route) {
            Some(false) => self.http1(route).map(Connection::Http1),
            Some(true) | None => None,
        }
    }

    /// An HTTP/2 connection.
    pub(crate) fn http2(&self, route: &Route) -> Option<Http2> {
        let mut routes = self.routes.lock();
        let entry = routes.get_mut(route)?;
        let (connection, used) = entry.http2.as_mut()?;
        if connection.sender.is_closed() {
            entry.http2 = None;
            return None;
        }
        *used = Instant::now();
        Some(connection.clone())
    }

    /// Keeps an HTTP/2 connection, for anybody.
    pub(crate) fn share(&self, route: &Route, connection: Http2) {
        let mut routes = self.routes.lock();
        let entry = routes.get_or_insert_mut(route.clone(), Entry::default);
        entry.http2 = Some((connection, Instant::now()));
    }

    /// Keeps an HTTP/1 connection that has had its answer.
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

    /// Lets go of what has been idle for too long.
    pub(crate) fn sweep(&self) {
        for (_, entry) in self.routes.lock().iter_mut() {
            let stale = |used: &Instant| used.elapsed() >= self.keep;
            entry
                .http1
                .retain(|(connection, used)| !connection.sender.is_closed() && !stale(used));
            let gone = |(connection, used): &(Http2, Instant)| {
                connection.sender.is_closed() || stale(used)
            };
            if entry.http2.as_ref().is_some_and(gone) {
                entry.http2 = None;
            }
        }
    }

    /// Lets go of everything.
    pub(crate) fn clear(&self) {
        self.routes.lock().clear();
    }
}

/// An HTTP/1 connection in use. Goes back when the answer has been read.
pub(crate) struct Lease {
    pub(crate) pool: Arc<Pool>,
    pub(crate) route: Arc<Route>,
    pub(crate) connection: Http1,
    /// Holds what ends the connection with this answer.
    pub(crate) withheld: Option<Withheld>,
    /// Called if the answer, which lasts until the connection ends, ended without
    /// `close_notify`.
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
