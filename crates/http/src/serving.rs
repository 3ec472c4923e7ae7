//! Serving, and the ways in which it ends.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::connection::Shared;
use crate::listener::{Listener, accept};
use crate::site::Site;

/// A site that is being served. Connections go on if this is dropped.
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

    /// From now on, or no longer, each answer over HTTP/1 is the last one of its connection
    /// (`Connection: close`): clients come back to whoever accepts them then.
    pub fn send_away(&self, leave: bool) {
        self.shared.leaving.store(leave, Ordering::Relaxed);
    }

    /// Accepts nothing more, and asks connections to end: idle ones are closed, HTTP/2
    /// gets GOAWAY. Requests in flight are answered. Returns once the sockets are not
    /// accepted from any more.
    pub async fn close(&mut self) {
        self.shared.closing.raise();
        self.shared.site.closing.raise();
        while self.accepting.join_next().await.is_some() {}
    }

    /// Waits, for up to `patience`, until no submission can come or is without an
    /// answer. To be called after [`close`](Self::close). Returns false if some can.
    pub async fn submissions_end(&self, patience: Duration) -> bool {
        self.shared.submitting.ended(patience).await
    }

    /// Waits until all connections have ended, for up to
    /// [`Limits::drain_timeout`](crate::Limits::drain_timeout), and cuts the others.
    pub async fn drain(&self) {
        let patience = self.shared.site.limits.drain_timeout;
        if !self.shared.open.drain(patience).await {
            self.shared.cut.raise();
        }
    }
}

/// Serves the site on all listeners until `shutdown` is ready; then accepts
/// nothing more, lets the requests in flight finish for up to
/// [`Limits::drain_timeout`](crate::Limits::drain_timeout), and returns.
///
/// Submissions in flight wait for a round: shut the logs down beside this, not
/// before it.
pub async fn serve(listeners: Vec<Listener>, site: Arc<Site>, shutdown: impl Future<Output = ()>) {
    let mut serving = Serving::start(listeners, site);
    shutdown.await;
    serving.close().await;
    serving.drain().await;
}
