//! Connections through an upstream proxy.

use http::header::{HOST, PROXY_AUTHORIZATION, VIA};
use http::{HeaderMap, HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use crate::connector::Connector;
use crate::failure::{Failure, Step, UpstreamFailure};
use crate::outgoing::Outgoing;
use crate::page::PROXY_STATUS;
use crate::pool::Http1;
use crate::target::Target;
use crate::upstream_proxy::UpstreamProxy;

/// Connection to a server: a socket, or a tunnel through a proxy.
pub(crate) type Link = Either<TcpStream, TokioIo<Upgraded>>;

/// Connection to an upstream proxy.
type ToProxy = Either<TcpStream, TlsStream<TcpStream>>;

/// Connects to the upstream proxy itself, which forwards plain requests.
pub(crate) async fn reach(
    connector: &Connector,
    proxy: &UpstreamProxy,
    target: &Target,
) -> Result<ToProxy, Failure> {
    connector.dialer.permit_elsewhere(target)?;
    let unreached = |failure| UpstreamFailure::Unreached(Box::new(failure)).of(proxy);
    let tcp = connector.dialer.connect_to_proxy(&proxy.target).await;
    let tcp = tcp.map_err(unreached)?;
    if !proxy.tls {
        return Ok(Either::Left(tcp));
    }
    let tls = &connector.nobody.http1;
    let secured = connector.secure(tls, tcp, &proxy.target.host).await;
    secured.map(Either::Right).map_err(unreached)
}

/// Opens a tunnel to `target` with a CONNECT request to the proxy. `via` lists the proxies that the
/// client's request passed, including this one.
pub(crate) async fn tunnel(
    connector: &Connector,
    proxy: &UpstreamProxy,
    target: &Target,
    via: &HeaderValue,
) -> Result<Upgraded, Failure> {
    let stream = reach(connector, proxy, target).await?;
    let Http1 { mut sender, end } = connector.speak_http1(stream).await?;
    let broke = |error: hyper::Error| broke(&error, proxy, end.received() > 0);
    let request = ask(proxy, target, via)?;
    let asking = sender.send_request(request);
    let response = match timeout(connector.response, asking).await {
        Ok(response) => response.map_err(broke)?,
        Err(_) => {
            let late = Failure::Timeout(Step::Response, connector.response);
            return Err(UpstreamFailure::Unreached(Box::new(late)).of(proxy));
        }
    };
    if !response.status().is_success() {
        return Err(refused(&response, proxy));
    }
    hyper::upgrade::on(response).await.map_err(broke)
}

fn ask(
    proxy: &UpstreamProxy,
    target: &Target,
    via: &HeaderValue,
) -> Result<Request<Outgoing>, Failure> {
    let authority = target.to_string();
    let mut request = Request::connect(&authority)
        .header(HOST, &authority)
        .header(VIA, via)
        .body(Outgoing::empty())
        .map_err(|error| Failure::Request(format!("{error}.")))?;
    authorize(request.headers_mut(), proxy);
    Ok(request)
}

/// Adds the credentials of this upstream proxy. Only requests to this proxy may have them.
pub(crate) fn authorize(headers: &mut HeaderMap, proxy: &UpstreamProxy) {
    if let Some(authorization) = &proxy.authorization {
        headers.insert(PROXY_AUTHORIZATION, authorization.clone());
    }
}

/// Converts a refusal of the upstream proxy, with its reason.
pub(crate) fn refused(response: &Response<Incoming>, proxy: &UpstreamProxy) -> Failure {
    UpstreamFailure::Refused(response.status(), reason(response)).of(proxy)
}

/// Returns the `Proxy-Status` of the response (RFC 9209), unless the field has more than 500 bytes.
fn reason(response: &Response<Incoming>) -> Option<String> {
    const LONGEST: usize = 500;
    let said = response.headers().get(PROXY_STATUS)?.to_str().ok()?;
    (said.len() <= LONGEST).then(|| said.to_owned())
}

/// Converts a connection error of the upstream proxy, or the error of a response that is not HTTP.
/// `begun` is `true` if a part of a response has arrived.
pub(crate) fn broke(error: &hyper::Error, proxy: &UpstreamProxy, begun: bool) -> Failure {
    let what = if error.is_parse() {
        "its response is not valid HTTP"
    } else if begun {
        "it closed the connection before the end of its response's head"
    } else {
        "it closed the connection before it responded"
    };
    UpstreamFailure::Broke(what).of(proxy)
}
