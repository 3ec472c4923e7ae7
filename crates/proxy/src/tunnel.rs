//! Tunnels: bytes forwarded unchanged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};

use crate::core::Core;
use crate::failure::Failure;
use crate::records::{Recording, Tap, taps};
use crate::relay::Link;
use crate::stream::{CountedStream, Rewind};
use crate::target::Target;

/// A CONNECT request that the rules permit.
pub(crate) struct Connect {
    pub(crate) core: Arc<Core>,
    pub(crate) client: SocketAddr,
    pub(crate) target: Target,
    /// Proxies that the request passed, including this one.
    pub(crate) via: HeaderValue,
    /// Record of the connection, if connections are recorded.
    pub(crate) recording: Option<Box<Recording>>,
}

impl Connect {
    /// Forwards all bytes if the server can be reached. `server` is the connection to the server,
    /// if it exists already. A failure cannot be reported to the client.
    pub(crate) async fn tunnel<C>(mut self, stream: C, server: Option<Rewind<Link>>)
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        self.core.hosts.connection(&self.target.host);
        let connected = match server {
            Some(server) => Ok(server),
            None => self.core.upstream.link(&self.target, &self.via).await,
        };
        match connected {
            Ok(server) => {
                self.core.stats.tunnelled.inc();
                let taps = taps(self.recording.as_deref());
                splice(stream, server, self.core.limits.idle, taps).await;
            }
            Err(failure) => self.log_failure(&failure),
        }
    }

    /// Counts and logs a failure that cannot be reported to the client.
    pub(crate) fn log_failure(&mut self, failure: &Failure) {
        let Connect { client, target, .. } = &self;
        self.core.stats.failed(failure.kind());
        tracing::info!(%client, %target, "{failure}");
        if let Some(recording) = &mut self.recording {
            recording.failed(failure);
        }
    }
}

/// Forwards bytes until both sides have ended, one side fails, or nothing has moved for `idle`. The
/// end may come as late as twice `idle`, because a periodic check is cheaper than a timer per byte.
/// The taps count the bytes from and to the client.
pub(crate) async fn splice<A, B>(
    client: A,
    mut server: B,
    idle: Duration,
    (read, written): (Arc<Tap>, Arc<Tap>),
) where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let moved = || read.bytes() + written.bytes();
    let stillness = async {
        loop {
            let before = moved();
            tokio::time::sleep(idle).await;
            if moved() == before {
                return;
            }
        }
    };
    let mut client = CountedStream {
        stream: client,
        read: read.clone(),
        written: written.clone(),
    };
    tokio::select! {
        // The end of one side needs no report.
        _ = copy_bidirectional(&mut client, &mut server) => {}
        () = stillness => tracing::debug!("tunnel closed: no byte moved for {idle:?}"),
    }
}
