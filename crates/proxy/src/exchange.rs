//! One request, from the client to the server, and its answer back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::header::{ACCEPT, HOST, HeaderMap, TE};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::TrySendError;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use lucarne_net::RequestId;
use tracing::Instrument;

use crate::body::Body;
use crate::connector::closed;
use crate::expect::BodyGate;
use crate::failure::{Failure, Refusal, Step, next_hop};
use crate::form::{for_forwarder, for_http1, for_http2};
use crate::headers;
use crate::hops;
use crate::interim::{Interim, InterimSender};
use crate::outgoing::Outgoing;
use crate::page::{self, PROXY_STATUS};
use crate::pool::{Connection, Http1, Lease, Route};
use crate::relay;
use crate::session::{FixedOrigin, Session};
use crate::target::Target;
use crate::tunnel::splice;
use crate::upstream_proxy::UpstreamProxy;

/// Answers a request, with the server's answer or a page that says why there
/// is none.
pub(crate) async fn answer(session: &Arc<Session>, request: Request<Incoming>) -> Response<Body> {
    let core = &session.core;
    core.stats.requests.inc();
    let accept = request.headers().get(ACCEPT).cloned();
    let head = request.method() == Method::HEAD;
    let id = RequestId::new();
    let span = tracing::debug_span!("exchange", %id, client = %session.client);
    match exchange(session, request).instrument(span).await {
        Ok(response) => response,
        Err((failure, host)) => {
            core.stats.failed(failure.kind());
            tracing::info!(%id, client = %session.client, host, "{failure}");
            if let Some(fixed) = &session.fixed {
                fixed.seen.failed();
            }
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, accept);
            }
            let mut response = page::failure(id, &failure, host.as_deref(), &headers);
            if head {
                *response.body_mut() = Body::empty();
            }
            response
        }
    }
}

/// The failure, and with which host.
type FailureOf = (Failure, Option<String>);

async fn exchange(
    session: &Arc<Session>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, FailureOf> {
    let route = route(session, &request).map_err(|failure| (failure, None))?;
    let trouble = |failure| (failure, Some(route.target.to_string()));
    permit(session, &request, &route).map_err(trouble)?;
    if let Some(answer) = hops::count(&mut request) {
        return Ok(answer);
    }
    let client_upgrade = hyper::upgrade::on(&mut request);
    let interim = session.interim.as_ref();
    let interim = interim.filter(|_| request.version() == Version::HTTP_11);
    let teller = interim.map(Interim::begin);
    let (prepared, moving) = prepare(session, request, &route).map_err(trouble)?;
    let upgrade = prepared.upgrade;
    let sent = send(session, &route, prepared, &moving, teller.as_ref()).await;
    if let Some(teller) = &teller {
        teller.end().await;
    }
    let (mut response, lease) = sent.map_err(trouble)?;
    if let Some(proxy) = route.forwarder() {
        forwarded(&mut response, proxy).map_err(trouble)?;
    }
    let client = upgrade.then_some(client_upgrade);
    finish(session, response, lease, client).map_err(trouble)
}

/// Looks at an answer to a request that an upstream proxy passed on. Which of
/// the two speaks cannot be told but where only the proxy can have said it.
fn forwarded(response: &mut Response<Incoming>, proxy: &UpstreamProxy) -> Result<(), Failure> {
    let status = response.status();
    if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        return Err(relay::refused(response, proxy));
    }
    let failed = status.is_client_error() || status.is_server_error();
    let told = format!("lucarne; {}", next_hop(proxy, status));
    if let (true, Ok(told)) = (failed, HeaderValue::try_from(told)) {
        response.headers_mut().append(PROXY_STATUS, told);
    }
    Ok(())
}

/// Returns the route that a request takes.
fn route(session: &Session, request: &Request<Incoming>) -> Result<Arc<Route>, Failure> {
    let wrong = |why: &str| Failure::Request(why.to_owned());
    if request.method() == Method::CONNECT {
        return Err(wrong("CONNECT inside of a connection is for nobody."));
    }
    if let Some(fixed) = &session.fixed {
        fixed.seen.request();
        return Ok(fixed.route.clone());
    }
    let uri = request.uri();
    let (tls, port) = match uri.scheme_str() {
        Some("http") => (false, 80),
        Some("https") => (true, 443),
        Some(_) => return Err(wrong("Only http:// and https:// are passed on here.")),
        None => return Err(wrong("It names no server.")),
    };
    let authority = uri.authority().map_or("", Authority::as_str);
    if authority.contains('@') {
        return Err(wrong(
            "Its URL has a user name, which belongs into Authorization.",
        ));
    }
    let target = Target::parse(authority, port).map_err(|e| Failure::Request(format!("{e}.")))?;
    let tls = tls.then(|| target.host.clone());
    session.core.hosts.connection(&target.host).request();
    let mut route = session.core.upstream.route(target, tls);
    // As the client hands it to this proxy.
    route.forwarded = route.tls.is_none();
    Ok(Arc::new(route))
}

/// Checks whether the rules let the request be made. Inside an intercepted connection
/// the target has been looked at; a Host header may name yet another.
fn permit(session: &Session, request: &Request<Incoming>, route: &Route) -> Result<(), Failure> {
    if request.headers().get_all(HOST).iter().nth(1).is_some() {
        let why = "It has more than one Host header.";
        return Err(Failure::Request(why.to_owned()));
    }
    let rules = session.core.rules.load();
    if session.fixed.is_none() {
        rules
            .permit_port(route.target.port)
            .map_err(Failure::Refused)?;
        rules.permit(&route.target).map_err(Failure::Refused)?;
        if headers::came_by(request.headers(), &session.core.name) {
            return Err(Failure::Refused(Refusal::Loop));
        }
        return Ok(());
    }
    if !rules.judge() {
        return Ok(());
    }
    // The name that the connection is for counts for every request on it.
    if let Some(host) = &route.tls {
        let proven = Target {
            host: host.clone(),
            port: route.target.port,
        };
        rules.permit(&proven).map_err(Failure::Refused)?;
    }
    let named = request
        .uri()
        .authority()
        .map(|named| named.as_str().as_bytes());
    let named = named.or_else(|| Some(request.headers().get(HOST)?.as_bytes()));
    let Some(named) = named else { return Ok(()) };
    // What cannot be read here might be read otherwise by the server.
    let wrong = |why: &dyn std::fmt::Display| Failure::Request(format!("Its host: {why}."));
    let named = std::str::from_utf8(named).map_err(|why| wrong(&why))?;
    let target = Target::parse(named, route.target.port).map_err(|why| wrong(&why))?;
    if target.host == route.target.host {
        return Ok(());
    }
    rules.permit(&target).map_err(Failure::Refused)
}

/// A request as the server gets it.
struct Prepared {
    request: Request<Outgoing>,
    /// The proxies that it came by, this one included.
    via: HeaderValue,
    upgrade: bool,
    /// The time that a body that the client asks the server about is held back.
    expects: Option<Duration>,
}

fn prepare(
    session: &Session,
    request: Request<Incoming>,
    route: &Route,
) -> Result<(Prepared, Arc<AtomicBool>), Failure> {
    let (mut parts, incoming) = request.into_parts();
    let came_as = parts.version;
    let trailers = headers::takes_trailers(&parts.headers);
    let upgrade = headers::strip(&mut parts.headers);
    if trailers {
        // Both connections carry them, and gRPC asks for them.
        parts
            .headers
            .insert(TE, HeaderValue::from_static("trailers"));
    }
    let via = match &session.fixed {
        Some(fixed) => fixed.via.clone(),
        None => headers::via(&parts.headers, &session.core.name),
    };
    if session.fixed.is_none() {
        headers::add_via(&mut parts.headers, came_as, &session.core.name);
    }
    let asks = came_as >= Version::HTTP_11 && headers::expects_continue(&parts.headers);
    let expects = (asks && !incoming.is_end_stream()).then_some(session.core.limits.expectation);
    let asked = upgrade.filter(|_| came_as == Version::HTTP_11);
    let asked = asked.as_ref().and_then(headers::permitted_upgrade);
    let upgrade = asked.is_some();
    if let Some(protocol) = asked {
        headers::ask_upgrade(&mut parts.headers, protocol);
    }
    name_host(session, &mut parts, route)?;
    let (body, moving) = Outgoing::new(incoming, session.core.limits.idle);
    let prepared = Prepared {
        request: Request::from_parts(parts, body),
        via,
        upgrade,
        expects,
    };
    Ok((prepared, moving))
}

/// The one name of the server that goes on: where the URL has one, it counts,
/// whatever the Host header says (RFC 9112 3.2.2, RFC 9113 8.3.1).
fn name_host(session: &Session, parts: &mut Parts, route: &Route) -> Result<(), Failure> {
    let none = |_| Failure::Request("Its host is none.".to_owned());
    let host = match (&session.fixed, parts.uri.authority()) {
        (None, _) => HeaderValue::try_from(route.target.authority(route.port())).map_err(none)?,
        (Some(_), Some(authority)) => HeaderValue::try_from(authority.as_str()).map_err(none)?,
        (Some(_), None) => return Ok(()),
    };
    parts.headers.insert(HOST, host);
    Ok(())
}

/// The number of times that a request is sent before its connections are too short-lived.
const ATTEMPTS: u32 = 3;

/// Returns what can be sent once more, where the connection may have been closed by
/// the server before it took notice.
fn copy(request: &Request<Outgoing>) -> Option<http::request::Builder> {
    let safe = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    if !safe || !request.body().is_end_stream() {
        return None;
    }
    let mut builder = Request::builder()
        .method(request.method().clone())
        .uri(request.uri().clone())
        .version(request.version());
    if let Some(headers) = builder.headers_mut() {
        headers.clone_from(request.headers());
    }
    Some(builder)
}

/// A connection for a request, and whether it has carried one before.
async fn connection(
    session: &Session,
    route: &Route,
    via: &HeaderValue,
    fresh: bool,
) -> Result<(Connection, bool), Failure> {
    let upstream = &session.core.upstream;
    let Some(fixed) = &session.fixed else {
        return match upstream.pool.http1(route).filter(|_| !fresh) {
            Some(connection) => Ok((Connection::Http1(connection), true)),
            None => Ok((upstream.connect(route, false, via).await?, false)),
        };
    };
    if let Some(ready) = fixed.ready.lock().take() {
        return Ok((ready?, false));
    }
    match fixed.http2 {
        true => shared(session, fixed, fresh).await,
        false => match upstream.pool.http1(route).filter(|_| !fresh) {
            Some(connection) => Ok((Connection::Http1(connection), true)),
            None => Ok((upstream.connect(route, false, via).await?, false)),
        },
    }
}

/// For a client that speaks HTTP/2: the one connection for all, or, if the
/// server does not speak it, one for this request. Who waits for another's
/// connection is told that it failed: trying in turn would add all that up.
async fn shared(
    session: &Session,
    fixed: &FixedOrigin,
    fresh: bool,
) -> Result<(Connection, bool), Failure> {
    let pool = &session.core.upstream.pool;
    let route = &*fixed.route;
    let came = Instant::now();
    if !fresh && let Some(connection) = pool.for_http2(route) {
        return Ok((connection, true));
    }
    let may_be_shared = || pool.speaks_http2(route) != Some(false);
    if may_be_shared() {
        let mut failed = fixed.dialling.lock().await;
        if let Some(connection) = pool.http2(route) {
            return Ok((Connection::Http2(connection), true));
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

/// A new connection for a client that speaks HTTP/2; for all, if it speaks that.
async fn dial(session: &Session, fixed: &FixedOrigin) -> Result<Connection, Failure> {
    let upstream = &session.core.upstream;
    let connection = upstream.connect(&fixed.route, true, &fixed.via).await?;
    if let Connection::Http2(sender) = &connection {
        upstream.pool.share(&fixed.route, sender.clone());
    }
    Ok(connection)
}

/// Has interim answers to a request passed on, and its body held back until the
/// server says that it wants it.
fn listen(
    request: &mut Request<Outgoing>,
    expects: Option<Duration>,
    teller: Option<&InterimSender>,
) -> Option<BodyGate> {
    let gate = expects.map(|patience| request.body_mut().hold(patience));
    let (opened, teller) = (gate.clone(), teller.cloned());
    hyper::ext::on_informational(request, move |said| match said.status() {
        // The client is told when its body is asked for.
        StatusCode::CONTINUE => opened.iter().for_each(BodyGate::open),
        status => {
            if let Some(teller) = &teller {
                teller.say(status, said.headers());
            }
        }
    });
    gate
}

/// Sends the request, once more if the connection turned out to be closed.
async fn send(
    session: &Arc<Session>,
    route: &Arc<Route>,
    prepared: Prepared,
    moving: &AtomicBool,
    teller: Option<&InterimSender>,
) -> Result<(Response<Incoming>, Option<Lease>), Failure> {
    let Prepared {
        mut request,
        via,
        expects,
        ..
    } = prepared;
    let mut attempts = 0;
    loop {
        let (connection, used) = connection(session, route, &via, attempts > 0).await?;
        let once_more = if used { copy(&request) } else { None };
        let sent = match connection {
            Connection::Http1(connection) => {
                match route.forwarder() {
                    Some(proxy) => for_forwarder(&mut request, route, proxy),
                    None => for_http1(&mut request),
                }
                let gate = listen(&mut request, expects, teller);
                one_at_a_time(session, route, connection, request, gate, moving).await
            }
            Connection::Http2(mut connection) => {
                for_http2(&mut request, route);
                let sending = connection.try_send_request(request);
                let sent = patiently(sending, session.core.limits.answer, moving).await;
                sent.map(|sent| sent.map(|response| (response, None)))
            }
        };
        let unsent = match sent? {
            Ok(answered) => return Ok(answered),
            Err(unsent) => unsent,
        };
        attempts += 1;
        request = match (unsent.request, once_more) {
            (Some(request), _) if used && attempts < ATTEMPTS => *request,
            (None, Some(again)) if attempts < ATTEMPTS => again
                .body(Outgoing::empty())
                .map_err(|error| Failure::Request(format!("{error}.")))?,
            _ => return Err(broke_off(route, unsent.error)),
        };
    }
}

/// That there is no answer, told of whom the request was sent to.
fn broke_off(route: &Route, error: hyper::Error) -> Failure {
    match route.forwarder() {
        Some(proxy) => relay::broke(&error, proxy),
        None => closed(error),
    }
}

/// A request that was not answered; itself, if it was not sent.
struct Unsent {
    request: Option<Box<Request<Outgoing>>>,
    error: hyper::Error,
}

impl From<TrySendError<Request<Outgoing>>> for Unsent {
    fn from(mut error: TrySendError<Request<Outgoing>>) -> Self {
        Unsent {
            request: error.take_message().map(Box::new),
            error: error.into_error(),
        }
    }
}

type Sent<T> = Result<Result<T, Unsent>, Failure>;

async fn one_at_a_time(
    session: &Session,
    route: &Arc<Route>,
    mut connection: Http1,
    request: Request<Outgoing>,
    gate: Option<BodyGate>,
    moving: &AtomicBool,
) -> Sent<(Response<Incoming>, Option<Lease>)> {
    let sending = connection.try_send_request(request);
    let sent = patiently(sending, session.core.limits.answer, moving).await?;
    Ok(sent.map(|response| {
        let lease = Lease {
            pool: session.core.upstream.pool.clone(),
            route: route.clone(),
            connection,
            withheld: gate.and_then(BodyGate::answered),
        };
        (response, Some(lease))
    }))
}

/// Waits for an answer. As long as the request's body moves, it is not late.
async fn patiently(
    sending: impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Outgoing>>>>,
    patience: Duration,
    moving: &AtomicBool,
) -> Sent<Response<Incoming>> {
    let mut sending = std::pin::pin!(sending);
    loop {
        match tokio::time::timeout(patience, sending.as_mut()).await {
            Ok(sent) => return Ok(sent.map_err(Unsent::from)),
            Err(_) if moving.swap(false, Ordering::Relaxed) => {}
            Err(_) => return Err(Failure::Timeout(Step::Answer, patience)),
        }
    }
}

/// The answer as the client gets it.
fn finish(
    session: &Arc<Session>,
    mut response: Response<Incoming>,
    lease: Option<Lease>,
    client: Option<OnUpgrade>,
) -> Result<Response<Body>, Failure> {
    let came_as = response.version();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let why = "The server switched to another protocol, which nobody asked for.";
        let client = client.ok_or_else(|| Failure::Closed(why.to_owned()))?;
        return Ok(switch(session, response, client));
    }
    headers::strip(response.headers_mut());
    if session.fixed.is_none() {
        headers::add_via(response.headers_mut(), came_as, &session.core.name);
    }
    *response.version_mut() = Version::HTTP_11;
    let idle = session.core.limits.idle;
    Ok(response.map(|incoming| Body::server(incoming, idle, lease)))
}

/// Both sides have agreed to speak something else: they do so through us.
fn switch(
    session: &Arc<Session>,
    mut response: Response<Incoming>,
    client: OnUpgrade,
) -> Response<Body> {
    let server = hyper::upgrade::on(&mut response);
    let protocol = headers::strip(response.headers_mut());
    headers::ask_upgrade(
        response.headers_mut(),
        protocol.unwrap_or(HeaderValue::from_static("websocket")),
    );
    let session = session.clone();
    tokio::spawn(async move {
        let core = &session.core;
        let open = crate::core::Open::new(core);
        let (Ok(client), Ok(server)) = tokio::join!(client, server) else {
            return;
        };
        let idle = core.limits.idle;
        let passing = splice(TokioIo::new(client), TokioIo::new(server), idle);
        tokio::select! {
            () = passing => {}
            () = core.reached(crate::core::Phase::Cut) => {}
        }
        drop(open);
    });
    response.map(|_| Body::empty())
}
