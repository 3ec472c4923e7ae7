//! Serving HTTP to a client: on a bare connection, and inside of TLS.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue, PROXY_AUTHORIZATION};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use lucarne_net::RequestId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::body::Body;
use crate::connect;
use crate::core::{Core, Phase};
use crate::exchange;
use crate::interim::InterimStream;
use crate::limits::{FIELDS, Limits, STREAM_WINDOW, STREAMS};
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

/// Serves what a client sends that was meant for a server.
pub(crate) async fn intercepted<S>(mut session: Session, stream: S, http2: bool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let core = session.core.clone();
    let client = session.client;
    let (stream, interim) = InterimStream::new(stream);
    session.interim = Some(interim).filter(|_| !http2);
    let session = Arc::new(session);
    let stream = TokioIo::new(stream);
    let service = service_fn(move |request| {
        let session = session.clone();
        async move { Ok::<_, Infallible>(exchange::answer(&session, request).await) }
    });
    match http2 {
        true => {
            let connection = builder_http2(&core.limits).serve_connection(stream, service);
            attend(&core, client, connection, |it| it.graceful_shutdown()).await;
        }
        false => {
            let connection = builder_http1(&core.limits).serve_connection(stream, service);
            let connection = connection.with_upgrades();
            attend(&core, client, connection, |it| it.graceful_shutdown()).await;
        }
    }
}

/// Serves a connection to its end, which `close` asks for when the proxy stops.
async fn attend<C>(core: &Core, client: SocketAddr, connection: C, close: impl FnOnce(Pin<&mut C>))
where
    C: Future<Output = Result<(), hyper::Error>>,
{
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return tell(client, ended),
        () = core.reached(Phase::Closing) => close(connection.as_mut()),
    }
    tell(client, connection.await);
}

fn builder_http1(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_header_size(limits.head_bytes)
        .max_headers(FIELDS)
        .max_buf_size(limits.head_bytes.max(64 << 10))
        // Answers carry the date of the server that made them.
        .auto_date_header(false)
        .title_case_headers(true);
    builder
}

fn builder_http2(limits: &Limits) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(15))
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(4 << 20);
    builder
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

fn tell(client: SocketAddr, ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        let cause = std::error::Error::source(&error).map_or(String::new(), |e| format!(": {e}"));
        tracing::debug!(%client, "a connection ended: {error}{cause}");
    }
}
