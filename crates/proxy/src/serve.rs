//! Serving HTTP to a client of the proxy, on a bare connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use http::header::{CONNECTION, HeaderValue, PROXY_AUTHORIZATION};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lucarne_net::RequestId;
use tokio::net::TcpStream;

use crate::body::Body;
use crate::connect;
use crate::connection::{builder_http1, tell};
use crate::core::{Core, Phase};
use crate::exchange;
use crate::interim::InterimStream;
use crate::page;
use crate::session::Session;
use crate::welcome;

/// Serves a connection of a client to the proxy.
pub(crate) async fn bare(core: Arc<Core>, stream: TcpStream, client: SocketAddr) {
    let (stream, interim) = InterimStream::new(stream);
    let session = Arc::new(Session {
        core: core.clone(),
        client,
        fixed: None,
        interim: Some(interim),
    });
    let service = service_fn(|request| {
        let session = session.clone();
        async move { Ok::<_, Infallible>(to_proxy(&session, request).await) }
    });
    let connection = builder_http1(&core.limits).serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection.with_upgrades());
    tokio::select! {
        ended = connection.as_mut() => return tell(client, ended),
        () = core.reached(Phase::Closing) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = connection => tell(client, ended),
        () = core.reached(Phase::Cut) => {}
    }
}

/// Answers a request to the proxy.
async fn to_proxy(session: &Arc<Session>, request: Request<Incoming>) -> Response<Body> {
    let core = &session.core;
    let own = request.uri().authority().is_none();
    if own && let Some(answer) = welcome::answer_own(core, &request) {
        return answer;
    }
    if let Some(users) = core.users.load_full() {
        let authorization = request.headers().get(PROXY_AUTHORIZATION);
        let admitted = users.admit(session.client.ip(), authorization).await;
        if let Err(failure) = admitted {
            core.stats.failed(failure.kind());
            let id = RequestId::new();
            tracing::info!(%id, client = %session.client, "{failure}");
            return page::failure(id, &failure, None, request.headers());
        }
    }
    if *request.method() != Method::CONNECT {
        return exchange::answer(session, request).await;
    }
    let mut answer = connect::answer(core, session.client, request).await;
    if !answer.status().is_success() {
        // Whatever the client has sent after CONNECT is not for us.
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(CONNECTION, close);
    }
    answer
}
