//! CONNECT: opens a tunnel for a client, or intercepts its TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::VIA;
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use lucarne_net::RequestId;
use tokio::net::TcpStream;
use tracing::Instrument;

use crate::body::Body;
use crate::core::{Core, Open, Phase};
use crate::failure::{Failure, Refusal};
use crate::headers;
use crate::interim::InterimStream;
use crate::page;
use crate::records::{RecordAction, Recording};
use crate::rules::Action;
use crate::stream::Rewind;
use crate::target::Target;
use crate::tunnel::Connect;

/// Responds to CONNECT. The connection continues in a task of its own after the response.
pub(crate) async fn respond(
    core: &Arc<Core>,
    client: SocketAddr,
    mut request: Request<Incoming>,
) -> Response<Body> {
    let id = RequestId::new();
    let span = tracing::debug_span!("connect", %id, %client);
    let upgrade = hyper::upgrade::on(&mut request);
    let mut recording = Recording::of_connect(core, client, &request, id);
    let begun = begin(core, client, &request, upgrade, &mut recording).instrument(span);
    match begun.await {
        Ok(()) => Response::new(Body::empty()),
        Err((failure, host)) => {
            core.stats.failed(failure.kind());
            tracing::info!(%id, %client, host, "CONNECT: {failure}");
            let mut response = page::failure(id, &failure, host.as_deref(), request.headers());
            if let Some(mut recording) = recording {
                recording.failed(&failure);
                recording.responded(response.status(), response.headers());
                response.body_mut().record(recording);
            }
            response
        }
    }
}

async fn begin(
    core: &Arc<Core>,
    client: SocketAddr,
    request: &Request<Incoming>,
    upgrade: OnUpgrade,
    recording: &mut Option<Box<Recording>>,
) -> Result<(), (Failure, Option<String>)> {
    let authority = request
        .uri()
        .authority()
        .map_or("", |authority| authority.as_str());
    let target = target(authority).map_err(|failure| (failure, None))?;
    permit(core, &target).map_err(|failure| (failure, Some(target.to_string())))?;
    if headers::came_by(request.headers(), &core.name) {
        let failure = Failure::Refused(Refusal::Loop);
        return Err((failure, Some(target.to_string())));
    }
    let via = headers::via(request.headers(), &core.name);
    let rules = core.rules.load();
    let action = rules.action(&target, None);
    let tunnel = action == Action::Tunnel && !rules.need_name(&target);
    let judge = !tunnel || rules.judge();
    let mut server = None;
    if tunnel || may_loop(core, request, &target) {
        // Connects before the response to CONNECT, so that a failure can be reported with a status.
        let there = core.upstream.link(&target, &via).await;
        server = Some(there.map_err(|failure| (failure, Some(target.to_string())))?);
    }
    let mut recording = recording.take();
    if let Some(recording) = &mut recording {
        recording.responded(StatusCode::OK, &HeaderMap::new());
        if !tunnel {
            recording.act(RecordAction::Intercept);
        }
    }
    go_on(core, client, upgrade, move |core, stream| async move {
        let connect = Connect {
            core,
            client,
            target,
            via,
            recording,
        };
        if server.is_some() && !judge {
            connect.tunnel(stream, server).await;
        } else {
            connect.intercept(stream, server).await;
        }
    });
    Ok(())
}

/// Returns whether a CONNECT may return to a proxy that it passed: it came from a proxy, and
/// continues to another one. A loop must be detected before this proxy presents its certificate,
/// because the proxy in front may not trust it.
fn may_loop(core: &Core, request: &Request<Incoming>, target: &Target) -> bool {
    request.headers().contains_key(VIA) && core.upstream.has_proxy(target)
}

/// Parses the target of CONNECT, which must have an explicit port (RFC 9110, section 9.3.6).
fn target(authority: &str) -> Result<Target, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::Request(format!("CONNECT must name host:port, but {why}."))
    };
    let target = Target::parse(authority, 0).map_err(|why| wrong(&why))?;
    match target.port {
        0 => Err(wrong(&"there is no port")),
        _ => Ok(target),
    }
}

/// Checks the target against the rules, before its name is resolved.
fn permit(core: &Core, target: &Target) -> Result<(), Failure> {
    let rules = core.rules.load();
    rules.permit_port(target.port).map_err(Failure::Refused)?;
    rules.permit(target).map_err(Failure::Refused)?;
    match target.host.ip() {
        Some(ip) => core.upstream.connector.dialer.permit(ip, target.port),
        None => Ok(()),
    }
}

/// Runs `then` on the upgraded connection after the response is sent, until `then` ends or the
/// proxy reaches [`Phase::Cut`].
fn go_on<F>(
    core: &Arc<Core>,
    client: SocketAddr,
    upgrade: OnUpgrade,
    then: impl FnOnce(Arc<Core>, Rewind) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send,
{
    let core = core.clone();
    let open = Open::new(&core, client);
    let passing = async move {
        if let Some(stream) = upgrade.await.ok().and_then(bare) {
            tokio::select! {
                () = then(core.clone(), stream) => {}
                () = core.reached(Phase::Cut) => {}
            }
        }
        drop(open);
    };
    tokio::spawn(passing.in_current_span());
}

/// Returns the client's socket with the bytes that hyper read beyond the CONNECT request.
fn bare(upgraded: Upgraded) -> Option<Rewind> {
    let parts = upgraded.downcast::<TokioIo<InterimStream<TcpStream>>>();
    let parts = parts.ok()?;
    let stream = parts.io.into_inner().into_inner();
    Some(Rewind::new(parts.read_buf, stream))
}
