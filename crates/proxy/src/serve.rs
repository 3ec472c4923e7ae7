//! HTTP service for clients of the proxy.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use http::header::{CONNECTION, HeaderValue, PROXY_AUTHORIZATION};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lucarne_net::RequestId;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::body::Body;
use crate::connect;
use crate::connection::{builder_http1, log_end};
use crate::core::{Core, Phase};
use crate::exchange;
use crate::failure::Failure;
use crate::interim::InterimStream;
use crate::lingering::Upgrading;
use crate::page;
use crate::records::{ProxyUser, Recording};
use crate::session::Session;
use crate::welcome;

/// Serves a client's connection to the proxy.
pub(crate) async fn bare(core: Arc<Core>, stream: TcpStream, client: SocketAddr) {
    match begins_beyond_ascii(&core, &stream).await {
        Ok(false) => {}
        Ok(true) => {
            core.stats.failed("http_request_error");
            let why = "the request line contains characters beyond ASCII";
            tracing::info!(%client, "{why}");
            Recording::invalid(&core, client, StatusCode::BAD_REQUEST, why.to_owned());
            // A client that closed the connection needs no explanation.
            let (mut stream, _) = InterimStream::new(stream, core.limits.head_bytes);
            let _ = refuse(&mut stream).await;
            return;
        }
        Err(_late) => return,
    }
    let (stream, interim) = InterimStream::new(stream, core.limits.head_bytes);
    let session = Arc::new(Session {
        core: core.clone(),
        client,
        fixed: None,
        interim: Some(interim),
        owner: OnceLock::new(),
    });
    let service = service_fn(|request| {
        let session = session.clone();
        async move {
            let upgrading = Upgrading::of(&request);
            let response = to_proxy(&session, request).await;
            upgrading.ended(&response);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = builder_http1(&core.limits).serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection.with_upgrades());
    tokio::select! {
        ended = connection.as_mut() => return log_end(&core, client, ended),
        () = core.reached(Phase::Closing) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = connection => log_end(&core, client, ended),
        () = core.reached(Phase::Cut) => {}
    }
}

/// Returns whether the first request line has a byte beyond ASCII in the part that arrives first.
/// hyper closes these connections without a response.
///
/// # Errors
/// If the client sent nothing within the time limit.
async fn begins_beyond_ascii(core: &Core, stream: &TcpStream) -> Result<bool, Elapsed> {
    let mut bytes = [0; 512];
    let peeked = tokio::select! {
        peeked = timeout(core.limits.head, stream.peek(&mut bytes)) => peeked?,
        () = core.reached(Phase::Closing) => return Ok(false),
    };
    // An error is ignored here, because hyper reports a broken connection later.
    let read = peeked.unwrap_or(0);
    let line = bytes[..read].split(|byte| *byte == b'\n').next();
    let version = |line: &[u8]| line.windows(8).any(|part| part == b" HTTP/1.");
    Ok(line.is_some_and(|line| !line.is_ascii() && version(line)))
}

async fn refuse(stream: &mut InterimStream<TcpStream>) -> io::Result<()> {
    const WHY: &str = "The request line contains characters beyond ASCII. Write host names \
                       in punycode (xn--…), and paths with percent encoding.\n";
    let length = WHY.len();
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\nProxy-Status: lucarne; error=http_request_error\r\n\
         Connection: close\r\n\r\n{WHY}"
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

/// Responds to a request to the proxy.
async fn to_proxy(session: &Arc<Session>, mut request: Request<Incoming>) -> Response<Body> {
    let core = &session.core;
    let own = request.uri().authority().is_none();
    if own && let Some(response) = welcome::respond_own(core, &request) {
        return response;
    }
    if let Some(users) = core.users.load_full() {
        let authorization = request.headers().get(PROXY_AUTHORIZATION);
        match users.admit(session.client.ip(), authorization).await {
            Ok(name) => _ = request.extensions_mut().insert(ProxyUser(name.into())),
            Err(failure) => return unauthorized(session, &request, &failure),
        }
    }
    if *request.method() != Method::CONNECT {
        return exchange::respond(session, request).await;
    }
    let mut response = connect::respond(core, session.client, request).await;
    if !response.status().is_success() {
        // The bytes that the client sent after CONNECT are not a request to the proxy.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

fn unauthorized(
    session: &Session,
    request: &Request<Incoming>,
    failure: &Failure,
) -> Response<Body> {
    session.core.stats.failed(failure.kind());
    let id = RequestId::new();
    tracing::info!(%id, client = %session.client, "{failure}");
    let mut response = page::failure(id, failure, None, request.headers());
    if let Some(mut recording) = Recording::of_request(session, request, id) {
        recording.failed(failure);
        recording.responded(response.status(), response.headers());
        response.body_mut().record(recording);
    }
    response
}
