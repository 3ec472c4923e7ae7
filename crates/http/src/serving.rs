//! Serving a site, and its shutdown.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::connection::Shared;
use crate::listener::{Listener, accept};
use crate::site::Site;

/// A site that is being served. If the value is dropped, open connections continue, and no new
/// connections are accepted.
pub struct Serving {
    shared: Arc<Shared>,
    accepting: JoinSet<()>,
}

impl Serving {
    /// Serves the site on all listeners.
    pub fn start(listeners: Vec<Listener>, site: Arc<Site>) -> Self {
        if let Some(tls) = listeners.iter().find_map(|listener| listener.tls.clone()) {
            site.tls.get_or_init(|| tls);
        }
        let shared = Arc::new(Shared::new(site));
        let mut accepting = JoinSet::new();
        for listener in listeners {
            accepting.spawn(accept(listener, shared.clone()));
        }
        Serving { shared, accepting }
    }

    /// Sets whether each response over HTTP/1 is the last one of its connection
    /// (`Connection: close`). Clients then reconnect to the process that accepts connections at
    /// that time.
    pub fn send_away(&self, leave: bool) {
        self.shared.leaving.store(leave, Ordering::Relaxed);
    }

    /// Stops accepting and ends the connections: idle connections are closed, HTTP/2 gets GOAWAY.
    /// Requests in flight get their response. Returns when this process no longer accepts
    /// connections from the sockets.
    pub async fn close(&mut self) {
        self.shared.closing.raise();
        self.shared.site.close();
        while self.accepting.join_next().await.is_some() {}
    }

    /// Waits up to `patience` until every submission has a response and no submission can arrive.
    /// Must be called after [`close`](Self::close). Returns `false` after the timeout.
    pub async fn submissions_end(&self, patience: Duration) -> bool {
        self.shared.submitting.ended(patience).await
    }

    /// Waits until all connections have ended, for up to
    /// [`Limits::drain_timeout`](crate::Limits::drain_timeout), and then closes the remaining
    /// connections.
    pub async fn drain(&self) {
        let patience = self.shared.site.limits.drain_timeout;
        if !self.shared.open.drain(patience).await {
            self.shared.cut.raise();
        }
    }
}

/// Serves the site on all listeners until `shutdown` is ready. Then accepts no more connections,
/// lets the requests in flight finish for up to
/// [`Limits::drain_timeout`](crate::Limits::drain_timeout), and returns.
///
/// Submissions in flight wait for a round. The caller must therefore shut down the logs while this
/// function runs, not before.
pub async fn serve(listeners: Vec<Listener>, site: Arc<Site>, shutdown: impl Future<Output = ()>) {
    let mut serving = Serving::start(listeners, site);
    shutdown.await;
    serving.close().await;
    serving.drain().await;
}
