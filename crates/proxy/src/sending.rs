//! Sending a request to the server: choice of the connection, retries and time limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use h2::Reason;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::TrySendError;

use crate::connector::{body_failed, closed, ended_by};
use crate::ending::ConnectionEnd;
use crate::expect::BodyGate;
use crate::failure::{Failure, Step};
use crate::form::{for_forwarder, for_http1, for_http2};
use crate::interim::InterimSender;
use crate::outgoing::Outgoing;
use crate::pool::{Connection, Http1, Lease, Occupied, Route};
use crate::relay;
use crate::session::{FixedOrigin, Session};

/// A request in the form that the server receives.
pub(crate) struct Prepared {
    pub(crate) request: Request<Outgoing>,
    /// Proxies that the request passed, including this one.
    pub(crate) via: HeaderValue,
    pub(crate) upgrade: bool,
    /// Time that a body with `Expect: 100-continue` is held back.
    pub(crate) expects: Option<Duration>,
}

/// Limit of attempts for one request, if the server closes connections before it responds.
const ATTEMPTS: u32 = 3;

/// Returns whether a request may be repeated after the server may have processed it.
fn is_safe(request: &Request<Outgoing>) -> bool {
    let methods = [Method::GET, Method::HEAD, Method::OPTIONS];
    methods.contains(request.method()) && request.body().is_end_stream()
}

/// Returns a connection for a request, and whether it has carried a request before.
async fn connection(
    session: &Session,
    route: &Route,
    via: &HeaderValue,
    fresh: bool,
) -> Result<(Connection, bool), Failure> {
    let upstream = &session.core.upstream;
    if let Some(fixed) = &session.fixed {
        if let Some(ready) = fixed.ready.lock().take() {
            return Ok((ready?, false));
        }
        // A connection that belongs to a client connection uses HTTP/1.1.
        if fixed.http2 && route.owner.is_none() {
            return shared(session, fixed, fresh).await;
        }
    }
    match upstream.pool.http1(route).filter(|_| !fresh) {
        Some(connection) => Ok((Connection::Http1(connection), true)),
        None => Ok((upstream.connect(route, None, via).await?, false)),
    }
}

/// Returns a connection for an HTTP/2 client: one with a free stream, or, if the server does not
/// speak HTTP/2, one for this request. If the connection attempt of another request fails, waiting
/// requests report the same failure, because consecutive attempts would add up the timeouts.
async fn shared(
    session: &Session,
    fixed: &FixedOrigin,
    fresh: bool,
) -> Result<(Connection, bool), Failure> {
    let pool = &session.core.upstream.pool;
    let (route, client) = (&*fixed.route, session.network());
    let came = Instant::now();
    if !fresh && let Some(connection) = pool.for_http2(route, client) {
        return Ok((connection, true));
    }
    let may_be_shared = || pool.speaks_http2(route) != Some(false);
    if may_be_shared() {
        let mut failed = fixed.dialling.lock().await;
        if let Some(connection) = pool.http2(route, client) {
            return Ok((connection, true));
        }
        if let Some((at, failure)) = &*failed
            && came <= *at
        {
            return Err(failure.clone());
        }
        if may_be_shared() {
            let dialled = dial(session, fixed).await;
            if let Err(failure) = &dialled {
                *failed = Some((Instant::now(), failure.clone()));
            }
            return Ok((dialled?, false));
        }
    }
    Ok((dial(session, fixed).await?, false))
}

/// Opens a connection for an HTTP/2 client. Further requests use it if the server speaks HTTP/2.
async fn dial(session: &Session, fixed: &FixedOrigin) -> Result<Connection, Failure> {
    let upstream = &session.core.upstream;
    let client = Some(session.network());
    let connection = upstream.connect(&fixed.route, client, &fixed.via);
    let connection = connection.await?;
    if let Connection::Http2(shared, _) = &connection {
        upstream.pool.share(&fixed.route, shared.clone());
    }
    Ok(connection)
}

/// Forwards interim responses to the client, and holds the body back until the server requests it.
fn listen(
    request: &mut Request<Outgoing>,
    expects: Option<Duration>,
    interim: Option<&InterimSender>,
) -> Option<BodyGate> {
    let gate = expects.map(|patience| request.body_mut().hold(patience));
    let (opened, interim) = (gate.clone(), interim.cloned());
    hyper::ext::on_informational(request, move |said| match said.status() {
        // hyper sends 100 to the client when the client's body is polled.
        StatusCode::CONTINUE => opened.iter().for_each(BodyGate::open),
        status => {
            if let Some(interim) = &interim {
                interim.say(status, said.headers());
            }
        }
    });
    gate
}

/// Sends the request, and repeats it if the connection turned out to be closed.
pub(crate) async fn send(
    session: &Arc<Session>,
    route: &Arc<Route>,
    prepared: Prepared,
    moving: &AtomicBool,
    interim: Option<&InterimSender>,
) -> Result<(Response<Incoming>, Occupied), Failure> {
    let Prepared {
        mut request,
        via,
        expects,
        ..
    } = prepared;
    let mut attempts = 0;
    loop {
        let (connection, used) = connection(session, route, &via, attempts > 0).await?;
        // A repeated request that the server may have processed must be safe. A request that an
        // HTTP/2 server refused was not processed.
        let safe = used && is_safe(&request);
        let http2 = matches!(connection, Connection::Http2(..));
        let (head, mut body) = request.into_parts();
        let once_more = (safe || http2).then(|| (head.clone(), body.replay()));
        request = Request::from_parts(head, body);
        let end = connection.end();
        let received = end.received();
        request.body_mut().occupy(connection.stream());
        let sent = match connection {
            Connection::Http1(connection) => {
                match route.forwarder() {
                    Some(proxy) => for_forwarder(&mut request, route, proxy),
                    None => for_http1(&mut request),
                }
                let gate = listen(&mut request, expects, interim);
                one_at_a_time(session, route, connection, request, gate, moving).await
            }
            Connection::Http2(mut connection, stream) => {
                for_http2(&mut request, route);
                let sending = connection.sender.try_send_request(request);
                let sent = patiently(sending, session.core.limits.response, moving).await;
                sent.map(|sent| {
                    sent.map(|response| (response, Occupied::Http2 { _stream: stream }))
                })
            }
        };
        let mut unsent = match sent? {
            Ok(response) => return Ok(response),
            Err(unsent) => unsent,
        };
        attempts += 1;
        let refused = refusal(unsent.error());
        if refused == Some(Reason::HTTP_1_1_REQUIRED) {
            session.core.upstream.pool.require_http1(route);
        }
        let again = match (unsent.take_message(), once_more) {
            (Some(request), _) if used && attempts < ATTEMPTS => Some(request),
            (None, Some((head, body))) if attempts < ATTEMPTS && (safe || refused.is_some()) => {
                let body = body.body().await;
                body.map(|body| Request::from_parts(head, body))
            }
            _ => None,
        };
        request = again.ok_or_else(|| {
            let begun = end.received() > received;
            broke_off(route, unsent.into_error(), &end, begun)
        })?;
    }
}

/// Returns the reason with which an HTTP/2 server refused a request without processing it (RFC
/// 9113, sections 7 and 8.7). A server that stops refuses the streams after its last one (GOAWAY).
fn refusal(error: &hyper::Error) -> Option<Reason> {
    let cause = std::error::Error::source(error)?.downcast_ref::<h2::Error>()?;
    let refusals = [Reason::REFUSED_STREAM, Reason::HTTP_1_1_REQUIRED];
    let stops = |reason| cause.is_go_away() && reason == Reason::NO_ERROR;
    let reason = cause.reason().filter(|_| cause.is_remote())?;
    (refusals.contains(&reason) || stops(reason)).then_some(reason)
}

/// Converts the error of a request without a response, for the peer that failed: the client, the
/// server or the upstream proxy.
fn broke_off(route: &Route, error: hyper::Error, end: &ConnectionEnd, begun: bool) -> Failure {
    if let Some(failure) = body_failed(&error) {
        return failure;
    }
    match refusal(&error) {
        Some(Reason::HTTP_1_1_REQUIRED) => {
            let why = "The server requires HTTP/1.1 for this request. The proxy uses HTTP/1.1 for \
                       the next requests, but sends only bodies of up to 64 KiB again.";
            return Failure::Closed(why.to_owned());
        }
        Some(reason) => {
            let why = format!("The server refused the request without processing it ({reason:?}).");
            return Failure::Closed(why);
        }
        None => {}
    }
    match (route.forwarder(), end.alert()) {
        (Some(proxy), _) => relay::broke(&error, proxy, begun),
        (None, Some(alert)) => ended_by(alert),
        (None, None) => closed(error, begun),
    }
}

/// A request without a response contains the request itself if it was not sent.
type Sent<T> = Result<Result<T, Box<TrySendError<Request<Outgoing>>>>, Failure>;

async fn one_at_a_time(
    session: &Session,
    route: &Arc<Route>,
    mut connection: Http1,
    request: Request<Outgoing>,
    gate: Option<BodyGate>,
    moving: &AtomicBool,
) -> Sent<(Response<Incoming>, Occupied)> {
    let sending = connection.sender.try_send_request(request);
    let sent = patiently(sending, session.core.limits.response, moving).await?;
    Ok(sent.map(|response| {
        let lease = Lease {
            pool: session.core.upstream.pool.clone(),
            route: route.clone(),
            connection,
            withheld: gate.and_then(BodyGate::responded),
            cut: lasts_until_the_end(&response).then(|| cut(session, route)),
        };
        (response, Occupied::Http1(lease))
    }))
}

/// Returns whether only the end of the connection ends a response (RFC 9112, section 6.3).
fn lasts_until_the_end(response: &Response<Incoming>) -> bool {
    let headers = response.headers();
    !response.body().is_end_stream()
        && !headers.contains_key(CONTENT_LENGTH)
        && !headers.contains_key(TRANSFER_ENCODING)
}

/// Returns a callback that logs a response that ended without `close_notify`.
fn cut(session: &Session, route: &Route) -> Box<dyn FnOnce() + Send + Sync> {
    let (core, host) = (session.core.clone(), route.target.to_string());
    let client = session.client;
    Box::new(move || {
        core.stats.unannounced.inc();
        tracing::warn!(
            %client,
            host,
            "the server ended its response without close_notify: the response was forwarded, and \
             may be incomplete"
        );
    })
}

/// Waits for a response. The time limit restarts while the request's body moves.
async fn patiently(
    sending: impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Outgoing>>>>,
    patience: Duration,
    moving: &AtomicBool,
) -> Sent<Response<Incoming>> {
    let mut sending = std::pin::pin!(sending);
    loop {
        match tokio::time::timeout(patience, sending.as_mut()).await {
            Ok(sent) => return Ok(sent.map_err(Box::new)),
            Err(_) if moving.swap(false, Ordering::Relaxed) => {}
            Err(_) => return Err(Failure::Timeout(Step::Response, patience)),
        }
    }
}
