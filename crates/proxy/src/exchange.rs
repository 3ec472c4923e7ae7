//! One request from the client to the server, and its response.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::header::{ACCEPT, ALT_SVC, CONNECTION, HOST, HeaderMap, TE, TRAILER, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use lucarne_net::RequestId;
use tracing::Instrument;

use crate::body::{Body, OnError};
use crate::failure::{Failure, Refusal, next_hop};
use crate::headers;
use crate::hops;
use crate::interim::Interim;
use crate::outgoing::Outgoing;
use crate::page::{self, PROXY_STATUS};
use crate::pool::{Occupied, Route};
use crate::records::{Recording, taps};
use crate::relay;
use crate::sending::{Prepared, send};
use crate::session::Session;
use crate::target::Target;
use crate::tunnel::splice;
use crate::upstream_proxy::UpstreamProxy;

/// Responds to a request with the server's response, or with a page that states the failure.
pub(crate) async fn respond(session: &Arc<Session>, request: Request<Incoming>) -> Response<Body> {
    let core = &session.core;
    core.stats.requests.inc();
    let accept = request.headers().get(ACCEPT).cloned();
    let head = request.method() == Method::HEAD;
    let id = RequestId::new();
    let span = tracing::debug_span!("exchange", %id, client = %session.client);
    let mut recording = Recording::of_request(session, &request, id);
    let exchanged = exchange(session, request, &mut recording)
        .instrument(span)
        .await;
    let mut response = match exchanged {
        Ok(response) => response,
        Err((failure, target)) => {
            session.count_failure(failure.kind(), target.as_ref());
            let host = target.as_ref().map(Target::to_string);
            tracing::info!(%id, client = %session.client, host, "{failure}");
            if let Some(recording) = &mut recording {
                recording.failed(&failure);
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
    };
    if let Some(mut recording) = recording {
        recording.responded(response.status(), response.headers());
        response.body_mut().record(recording);
    }
    response
}

/// A failure, and the target of the request if it is known.
type FailureOf = (Failure, Option<Target>);

async fn exchange(
    session: &Arc<Session>,
    mut request: Request<Incoming>,
    recording: &mut Option<Box<Recording>>,
) -> Result<Response<Body>, FailureOf> {
    let route = route(session, &request).map_err(|failure| (failure, None))?;
    if headers::authenticates_connection(request.headers()) {
        session.tie();
    }
    let route = session.own(route);
    let trouble = |failure| (failure, Some(route.target.clone()));
    if request.version() == Version::HTTP_2
        && headers::size(request.headers()) > session.core.limits.head_bytes
    {
        return Err(trouble(Failure::large_head(session.core.limits.head_bytes)));
    }
    permit(session, &request, &route).map_err(trouble)?;
    if let Some(response) = hops::count(&mut request) {
        return Ok(response);
    }
    // Every HTTP/2 client accepts trailers.
    let trailers =
        request.version() == Version::HTTP_2 || headers::takes_trailers(request.headers());
    let client_upgrade = hyper::upgrade::on(&mut request);
    let interim = session.interim.as_ref();
    let interim = interim.filter(|_| request.version() == Version::HTTP_11);
    let interim_sender = interim.map(Interim::begin);
    let prepared = prepare(session, request, &route, recording.as_deref());
    let (prepared, moving) = prepared.map_err(trouble)?;
    let upgrade = prepared.upgrade;
    let sent = send(session, &route, prepared, &moving, interim_sender.as_ref()).await;
    if let Some(interim_sender) = &interim_sender {
        interim_sender.end().await;
    }
    let (mut response, mut occupied) = sent.map_err(trouble)?;
    if headers::authenticates_connection(response.headers()) {
        tie(session, &route, &mut response, &mut occupied);
    }
    if let Some(proxy) = route.forwarder() {
        forwarded(&mut response, proxy).map_err(trouble)?;
    }
    let client = upgrade.then_some(client_upgrade);
    let chunked = response.headers().contains_key(TRANSFER_ENCODING);
    let finished = finish(session, response, occupied, (client, trailers), recording);
    let mut response = finished.map_err(trouble)?;
    if let Some(recording) = recording {
        response.body_mut().tap(recording.response.clone());
    }
    if chunked && let Err(error) = response.body_mut().begin().await {
        let why = error.reason();
        let why = format!("The body of the server's response is not valid: {why}.");
        return Err(trouble(Failure::Response(why)));
    }
    response
        .body_mut()
        .on_error(cut_off(session, &route.target));
    Ok(response)
}

/// Returns a callback that logs and counts a response whose body ends early.
fn cut_off(session: &Arc<Session>, target: &Target) -> OnError {
    let (session, target) = (session.clone(), target.clone());
    Box::new(move |error| {
        let why = error.reason();
        tracing::info!(client = %session.client, host = %target, "the response was cut off: {why}");
        session.count_failure("http_response_incomplete", Some(&target));
    })
}

/// Ties the connections with the client and the server, because the server offers authentication of
/// the connection.
fn tie(
    session: &Session,
    route: &Arc<Route>,
    response: &mut Response<Incoming>,
    occupied: &mut Occupied,
) {
    session.tie();
    if let Occupied::Http1(lease) = occupied {
        lease.route = session.own(lease.route.clone());
    }
    if response.version() == Version::HTTP_2 {
        // Several clients use an HTTP/2 connection in turn, so these schemes need HTTP/1.1.
        session.core.upstream.pool.require_http1(route);
    }
    if session.fixed.is_none() {
        // Some clients authenticate through a proxy only if it announces support (RFC 4559,
        // section 6).
        let ties = HeaderValue::from_static("Session-Based-Authentication");
        response.headers_mut().insert("proxy-support", ties);
    }
}

/// Checks a response that came through an upstream proxy. The response does not show whether the
/// proxy or the server wrote it, except for 407, which only the proxy sends.
fn forwarded(response: &mut Response<Incoming>, proxy: &UpstreamProxy) -> Result<(), Failure> {
    let status = response.status();
    if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        return Err(relay::refused(response, proxy));
    }
    let failed = status.is_client_error() || status.is_server_error();
    let value = format!("lucarne; {}", next_hop(proxy, status));
    if let (true, Ok(value)) = (failed, HeaderValue::try_from(value)) {
        response.headers_mut().append(PROXY_STATUS, value);
    }
    Ok(())
}

fn route(session: &Session, request: &Request<Incoming>) -> Result<Arc<Route>, Failure> {
    let wrong = |why: &str| Failure::Request(why.to_owned());
    if request.method() == Method::CONNECT {
        return Err(wrong("CONNECT is not allowed inside a tunnel."));
    }
    if let Some(fixed) = &session.fixed {
        fixed.seen.request();
        if let Some(trial) = &fixed.trial {
            trial.succeeded();
        }
        return Ok(fixed.route.clone());
    }
    let uri = request.uri();
    let (tls, port) = match uri.scheme_str() {
        Some("http") => (false, 80),
        Some("https") => (true, 443),
        Some(_) => return Err(wrong("This proxy forwards http:// and https:// URLs only.")),
        None => return Err(wrong("The request names no server.")),
    };
    let authority = uri.authority().map_or("", Authority::as_str);
    if authority.contains('@') {
        return Err(wrong(
            "The URL contains a user name: send the user name in the Authorization header.",
        ));
    }
    let target = Target::parse(authority, port).map_err(|e| Failure::Request(format!("{e}.")))?;
    let tls = tls.then(|| target.host.clone());
    session.core.hosts.connection(&target.host).request();
    let mut route = session.core.upstream.route(target, tls);
    // An upstream proxy receives a plain-text request in the same form, with the whole URL. TLS
    // needs a tunnel (CONNECT).
    route.forwarded = route.tls.is_none();
    Ok(Arc::new(route))
}

/// Checks whether the rules permit the request. Inside an intercepted connection the target has
/// been checked, but a `Host` header may name another host.
fn permit(session: &Session, request: &Request<Incoming>, route: &Route) -> Result<(), Failure> {
    if request.headers().get_all(HOST).iter().nth(1).is_some() {
        let why = "The request has more than one Host header.";
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
    // The rules apply to the name of the TLS connection, for every request on it.
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
    // A name that the proxy cannot parse is refused, because the server might accept it as another
    // name.
    let wrong = |why: &dyn std::fmt::Display| Failure::Request(format!("Invalid host: {why}."));
    let named = std::str::from_utf8(named).map_err(|why| wrong(&why))?;
    let target = Target::parse(named, route.target.port).map_err(|why| wrong(&why))?;
    if target.host == route.target.host {
        return Ok(());
    }
    rules.permit(&target).map_err(Failure::Refused)
}

fn prepare(
    session: &Session,
    request: Request<Incoming>,
    route: &Route,
    recording: Option<&Recording>,
) -> Result<(Prepared, Arc<AtomicBool>), Failure> {
    let (mut parts, incoming) = request.into_parts();
    let came_as = parts.version;
    if let Some(coding) = headers::unknown_coding(&parts.headers) {
        return Err(Failure::Coding(format!("The request has {coding}.")));
    }
    let trailers = headers::takes_trailers(&parts.headers);
    let upgrade = headers::strip(&mut parts.headers);
    if trailers {
        // The proxy forwards trailers in both directions, and gRPC requires this field.
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
    let tap = recording.map(|recording| recording.request.clone());
    let (body, moving) = Outgoing::new(incoming, came_as, session.core.limits.idle, tap);
    let prepared = Prepared {
        request: Request::from_parts(parts, body),
        via,
        upgrade,
        expects,
    };
    Ok((prepared, moving))
}

/// Sets the one `Host` of the forwarded request. The authority of the URL takes precedence over the
/// `Host` header (RFC 9112, section 3.2.2; RFC 9113, section 8.3.1).
fn name_host(session: &Session, parts: &mut Parts, route: &Route) -> Result<(), Failure> {
    let none = |_| Failure::Request("The host is not a valid header value.".to_owned());
    let host = match (&session.fixed, parts.uri.authority()) {
        (None, _) => HeaderValue::try_from(route.target.authority(route.port())).map_err(none)?,
        (Some(_), Some(authority)) => HeaderValue::try_from(authority.as_str()).map_err(none)?,
        (Some(_), None) => return Ok(()),
    };
    parts.headers.insert(HOST, host);
    Ok(())
}

/// Converts the response for the client. `trailers` is `true` if the client accepts trailers;
/// otherwise the announcement of trailers is removed.
fn finish(
    session: &Arc<Session>,
    mut response: Response<Incoming>,
    occupied: Occupied,
    (client, trailers): (Option<OnUpgrade>, bool),
    recording: &mut Option<Box<Recording>>,
) -> Result<Response<Body>, Failure> {
    let came_as = response.version();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let why = "The server switched protocols, but the client requested no switch.";
        let client = client.ok_or_else(|| Failure::Closed(why.to_owned()))?;
        return Ok(switch(session, response, client, recording.take()));
    }
    if let Some(coding) = headers::unknown_coding(response.headers()) {
        return Err(Failure::ServerCoding(format!("The response has {coding}.")));
    }
    let limit = session.core.limits.head_bytes;
    if came_as == Version::HTTP_2 && headers::size(response.headers()) > limit {
        return Err(Failure::large_response_head(limit));
    }
    // A tied client must authenticate again on a new connection. HTTP/2 clients have no such field.
    let ends = session.owner.get().is_some()
        && session.interim.is_some()
        && headers::ends_connection(response.headers());
    headers::strip(response.headers_mut());
    if ends {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    if !trailers {
        response.headers_mut().remove(TRAILER);
    }
    if session.fixed.is_some() {
        // The client would use HTTP/3 without the proxy.
        response.headers_mut().remove(ALT_SVC);
    } else {
        headers::add_via(response.headers_mut(), came_as, &session.core.name);
    }
    *response.version_mut() = Version::HTTP_11;
    let idle = session.core.limits.idle;
    Ok(response.map(|incoming| Body::server(incoming, came_as, idle, occupied)))
}

/// Relays bytes between client and server after both switched to another protocol. The record of
/// the request ends with the connection.
fn switch(
    session: &Arc<Session>,
    mut response: Response<Incoming>,
    client: OnUpgrade,
    mut recording: Option<Box<Recording>>,
) -> Response<Body> {
    let server = hyper::upgrade::on(&mut response);
    let protocol = headers::strip(response.headers_mut());
    headers::ask_upgrade(
        response.headers_mut(),
        protocol.unwrap_or(HeaderValue::from_static("websocket")),
    );
    if let Some(recording) = &mut recording {
        recording.responded(response.status(), response.headers());
    }
    let session = session.clone();
    tokio::spawn(async move {
        let core = &session.core;
        let open = crate::core::Open::new(core, session.client);
        let (Ok(client), Ok(server)) = tokio::join!(client, server) else {
            return;
        };
        let idle = core.limits.idle;
        let taps = taps(recording.as_deref());
        let passing = splice(TokioIo::new(client), TokioIo::new(server), idle, taps);
        tokio::select! {
            () = passing => {}
            () = core.reached(crate::core::Phase::Cut) => {}
        }
        drop(open);
    });
    response.map(|_| Body::empty())
}
