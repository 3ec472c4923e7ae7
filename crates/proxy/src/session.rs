//! One client connection, and the destination of its requests.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use http::HeaderValue;
use parking_lot::Mutex;

use crate::checks::network;
use crate::core::Core;
use crate::failure::Failure;
use crate::hosts::Seen;
use crate::interim::Interim;
use crate::learned::Trial;
use crate::pool::{Connection, Route};
use crate::records::{ClientTls, Recording};
use crate::target::Target;

/// State that the requests of a connection share.
pub(crate) struct Session {
    pub(crate) core: Arc<Core>,
    pub(crate) client: SocketAddr,
    /// Server of all requests; `None` on a forward proxy connection, whose requests each name a
    /// server.
    pub(crate) fixed: Option<FixedOrigin>,
    /// Queue of interim responses to the client; `None` drops them.
    pub(crate) interim: Option<Arc<Interim>>,
    /// Owner of connections with servers that only this client may use; see [`Session::tie`].
    pub(crate) owner: OnceLock<u64>,
}

/// Next number of an owner.
static NEXT_OWNER: AtomicU64 = AtomicU64::new(0);

/// The server behind an intercepted connection.
pub(crate) struct FixedOrigin {
    pub(crate) route: Arc<Route>,
    /// Proxies that the client's CONNECT passed, including this one.
    pub(crate) via: HeaderValue,
    /// Whether HTTP/2 is offered to the client, or used by it without TLS. The proxy then offers
    /// HTTP/2 to the server.
    pub(crate) http2: bool,
    pub(crate) seen: Arc<Seen>,
    pub(crate) client: ClientSide,
    /// Trial of the interception, if the proxy learns.
    pub(crate) trial: Option<Trial>,
    /// Connection or failure of the attempt during the client's TLS handshake, for the first
    /// request.
    pub(crate) ready: Mutex<Option<Result<Connection, Failure>>>,
    /// Locked while an HTTP/2 connection is opened, because one connection serves many streams.
    /// Holds the time and the reason of the last failure, for waiting requests.
    pub(crate) dialling: tokio::sync::Mutex<Option<(Instant, Failure)>>,
}

/// The client of an intercepted connection, for records.
pub(crate) struct ClientSide {
    pub(crate) user: Option<Arc<str>>,
    pub(crate) tls: Option<ClientTls>,
}

impl ClientSide {
    /// Ends the record of CONNECT: the requests in the connection have records of their own.
    pub(crate) fn new(connect: Option<Box<Recording>>, tls: Option<ClientTls>) -> Self {
        let user = connect.as_ref().and_then(|connect| connect.user());
        if let Some(connect) = connect {
            connect.discard();
        }
        ClientSide { user, tls }
    }
}

impl Session {
    /// Counts a failed request to `target`.
    pub(crate) fn count_failure(&self, kind: &'static str, target: Option<&Target>) {
        self.core.stats.failed(kind);
        match (&self.fixed, target) {
            (Some(fixed), _) => fixed.seen.failed(),
            (None, Some(target)) => self.core.hosts.failed(&target.host),
            (None, None) => {}
        }
    }

    /// Creates the session of a client whose requests all go to one server.
    pub(crate) fn behind(core: Arc<Core>, client: SocketAddr, fixed: FixedOrigin) -> Self {
        Session {
            core,
            client,
            fixed: Some(fixed),
            interim: None,
            owner: OnceLock::new(),
        }
    }

    /// Returns the address that identifies the client.
    pub(crate) fn network(&self) -> IpAddr {
        network(self.client.ip())
    }

    /// Ties this client connection to its connections with servers, because their authentication
    /// belongs to the connection (RFC 4559, section 6). From now on, no other client connection
    /// receives a connection that carried a request of this one.
    pub(crate) fn tie(&self) {
        let next = || NEXT_OWNER.fetch_add(1, Ordering::Relaxed);
        self.owner.get_or_init(next);
    }

    /// Returns the route to use: for a tied client connection, a route of its own.
    pub(crate) fn own(&self, route: Arc<Route>) -> Arc<Route> {
        let owner = self.owner.get().copied();
        if route.owner == owner {
            return route;
        }
        Arc::new(Route {
            owner,
            ..Route::clone(&route)
        })
    }
}

impl Drop for Session {
    /// Ends the idle connections with servers that are tied to this client connection.
    fn drop(&mut self) {
        if let Some(owner) = self.owner.get() {
            self.core.upstream.pool.forget(*owner);
        }
    }
}

impl FixedOrigin {
    pub(crate) fn new(
        route: Arc<Route>,
        via: HeaderValue,
        http2: bool,
        seen: Arc<Seen>,
        ready: Option<Result<Connection, Failure>>,
        client: ClientSide,
    ) -> Self {
        FixedOrigin {
            route,
            via,
            http2,
            seen,
            client,
            trial: None,
            ready: Mutex::new(ready),
            dialling: tokio::sync::Mutex::default(),
        }
    }
}
