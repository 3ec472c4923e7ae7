//! Tunnels: bytes forwarded unchanged.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};

use crate::core::Core;
use crate::relay::Link;
use crate::stream::{ActivityStream, Rewind};

/// Forwards all bytes between client and server.
pub(crate) async fn pass<C>(core: &Core, client: C, server: Rewind<Link>)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    core.stats.tunnelled.inc();
    splice(client, server, core.limits.idle).await;
}

/// Forwards bytes until both sides have ended, one side fails, or nothing has moved for `idle`. The
/// end may come as late as twice `idle`, because a periodic check is cheaper than a timer per byte.
pub(crate) async fn splice<A, B>(client: A, mut server: B, idle: Duration)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut client, active) = ActivityStream::new(client);
    let stillness = async {
        loop {
            // The tunnel ends after this time without a byte.
            tokio::time::sleep(idle).await;
            if !active.swap(false, Ordering::Relaxed) {
                return;
            }
        }
    };
    tokio::select! {
        // The end of one side needs no report.
        _ = copy_bidirectional(&mut client, &mut server) => {}
        () = stillness => tracing::debug!("tunnel closed: no byte moved for {idle:?}"),
    }
}
