//! `Max-Forwards` (RFC 9110, section 7.6.2): the limit of hops for OPTIONS and TRACE. If no hop is
//! left, the proxy responds instead of the server.

use http::header::{ALLOW, AUTHORIZATION, COOKIE, HeaderValue, MAX_FORWARDS, PROXY_AUTHORIZATION};
use http::{Method, Request, Response, StatusCode};

use crate::body::Body;
use crate::{headers, page};

/// Methods that this proxy accepts, for itself or for servers.
const METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE, CONNECT");

/// Counts a hop of OPTIONS or TRACE. Returns the proxy's own response if no hop is left.
pub(crate) fn count<B>(request: &mut Request<B>) -> Option<Response<Body>> {
    let trace = *request.method() == Method::TRACE;
    if !trace && *request.method() != Method::OPTIONS {
        return None;
    }
    let left = request.headers().get(MAX_FORWARDS)?.to_str().ok()?;
    // A value that is not a number has no meaning here and is forwarded.
    let left: u64 = left.parse().ok()?;
    match left.checked_sub(1) {
        Some(left) => {
            request.headers_mut().insert(MAX_FORWARDS, left.into());
            None
        }
        None if trace => Some(echo(request)),
        None => Some(options()),
    }
}

/// Returns the response to OPTIONS.
pub(crate) fn options() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.headers_mut().insert(ALLOW, METHODS);
    response
}

/// Returns the received request without its secrets (RFC 9110, section 9.3.8).
fn echo<B>(request: &Request<B>) -> Response<Body> {
    let (method, uri, version) = (request.method(), request.uri(), request.version());
    let mut text = format!("{method} {uri} {version:?}\r\n").into_bytes();
    let secret = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];
    let fields = request.headers().iter();
    headers::write(fields.filter(|(name, _)| !secret.contains(name)), &mut text);
    page::response(StatusCode::OK, "message/http", text)
}
