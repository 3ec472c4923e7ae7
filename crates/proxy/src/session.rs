//! One client connection, and where its requests go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::HeaderValue;
use parking_lot::Mutex;

use crate::core::Core;
use crate::failure::Failure;
use crate::hosts::Seen;
use crate::interim::Interim;
use crate::pool::{Connection, Route};

/// The things that requests of a connection have in common.
pub(crate) struct Session {
    pub(crate) core: Arc<Core>,
    pub(crate) client: SocketAddr,
    /// The server of all of them; `None`: each names its own, to a forward proxy.
    pub(crate) fixed: Option<FixedOrigin>,
    /// The way of interim answers to the client; `None`: they do not reach it.
    pub(crate) interim: Option<Arc<Interim>>,
}

/// The server behind an intercepted connection.
pub(crate) struct FixedOrigin {
    pub(crate) route: Arc<Route>,
    /// The proxies that the client's CONNECT came by, this one included.
    pub(crate) via: HeaderValue,
    /// True if HTTP/2 is offered to it: the client speaks it.
    pub(crate) http2: bool,
    pub(crate) seen: Arc<Seen>,
    /// The outcome of connecting while the client's TLS was set up.
    pub(crate) ready: Mutex<Option<Result<Connection, Failure>>>,
    /// Held while an HTTP/2 connection is made: one is enough for all streams.
    /// When that failed last, and how: for those that waited for it.
    pub(crate) dialling: tokio::sync::Mutex<Option<(Instant, Failure)>>,
}

impl Session {
    /// The connection of a client whose requests all go to one server.
    pub(crate) fn behind(core: Arc<Core>, client: SocketAddr, fixed: FixedOrigin) -> Self {
        Session {
            core,
            client,
            fixed: Some(fixed),
            interim: None,
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
    ) -> Self {
        FixedOrigin {
            route,
            via,
            http2,
            seen,
            ready: Mutex::new(ready),
            dialling: tokio::sync::Mutex::default(),
        }
    }
}
