//! HTTP after CONNECT, with or without TLS, served in place of the requested server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::{builder_http1, builder_http2, log_end};
use crate::core::{Core, Phase};
use crate::exchange;
use crate::interim::InterimStream;
use crate::lingering::Upgrading;
use crate::session::Session;

/// Serves the requests of a client on an intercepted connection.
pub(crate) async fn serve<S>(mut session: Session, stream: S, http2: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let core = session.core.clone();
    let client = session.client;
    let (stream, interim) = InterimStream::new(stream, core.limits.head_bytes);
    session.interim = Some(interim).filter(|_| !http2);
    let session = Arc::new(session);
    let stream = TokioIo::new(stream);
    let service = service_fn(move |request| {
        let session = session.clone();
        async move {
            let upgrading = Upgrading::of(&request);
            let response = exchange::respond(&session, request).await;
            upgrading.ended(&response);
            Ok::<_, Infallible>(response)
        }
    });
    if http2 {
        let connection = builder_http2(&core.limits).serve_connection(stream, service);
        attend(&core, client, connection, |it| it.graceful_shutdown()).await;
    } else {
        let connection = builder_http1(&core.limits).serve_connection(stream, service);
        let connection = connection.with_upgrades();
        attend(&core, client, connection, |it| it.graceful_shutdown()).await;
    }
}

/// Serves a connection until it ends. Calls `close` when the proxy stops.
async fn attend<C>(core: &Core, client: SocketAddr, connection: C, close: impl FnOnce(Pin<&mut C>))
where
    C: Future<Output = Result<(), hyper::Error>>,
{
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return log_end(core, client, ended),
        () = core.reached(Phase::Closing) => close(connection.as_mut()),
    }
    log_end(core, client, connection.await);
}
