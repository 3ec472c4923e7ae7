//! Bytes passed on as they are.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};

use crate::core::Core;
use crate::relay::Link;
use crate::stream::{ActivityStream, Rewind};

/// Passes everything on between client and server.
pub(crate) async fn pass<C>(core: &Core, client: C, server: Rewind<Link>)
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    core.stats.tunnelled.inc();
    splice(client, server, core.limits.idle).await;
}

/// Passes bytes between both until both have ended, one is broken, or nothing
/// has moved for `idle` (at most twice that: looking is cheaper than timing
/// each byte).
pub(crate) async fn splice<A, B>(client: A, mut server: B, idle: Duration)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut client, active) = ActivityStream::new(client);
    let stillness = async {
        loop {
            // That long without a byte is what ends it.
            tokio::time::sleep(idle).await;
            if !active.swap(false, Ordering::Relaxed) {
                return;
            }
        }
    };
    tokio::select! {
        // Whoever broke off need not be told.
        _ = copy_bidirectional(&mut client, &mut server) => {}
        () = stillness => tracing::debug!("a tunnel was closed: nothing moved for {idle:?}"),
    }
}
