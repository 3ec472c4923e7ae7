//! The forms a request takes, by who gets it next.

use http::header::{CONNECTION, HOST, TE, UPGRADE};
use http::uri::{Authority, Parts, PathAndQuery};
use http::{HeaderValue, Request, Uri, Version};

use crate::body::Outgoing;
use crate::headers;
use crate::pool::Route;
use crate::relay;
use crate::upstream_proxy::UpstreamProxy;

/// For an HTTP/1 server: the path alone, and a Host header.
///
/// The path is `*` for the whole server, where the client said so. A URL
/// without a path means that as well (RFC 9112 3.2.4), but URLs have got a
/// slash when they have been parsed.
pub(crate) fn for_http1(request: &mut Request<Outgoing>) {
    fields_of_http1(request);
    if request.uri().authority().is_some() {
        *request.uri_mut() = Uri::from(path(request));
    }
    *request.version_mut() = Version::HTTP_11;
}

/// For a proxy that passes it on: the whole URL, and who we are.
pub(crate) fn for_forwarder(request: &mut Request<Outgoing>, route: &Route, proxy: &UpstreamProxy) {
    fields_of_http1(request);
    let path = match path(request) {
        // There is no URL of `*` that could be written.
        path if path == "*" => PathAndQuery::from_static("/"),
        path => path,
    };
    let url = Uri::builder()
        .scheme(route.scheme())
        .authority(route.target.authority(route.port()))
        .path_and_query(path);
    // What came in has been a URL of these parts.
    if let Ok(url) = url.build() {
        *request.uri_mut() = url;
    }
    *request.version_mut() = Version::HTTP_11;
    relay::authorize(request.headers_mut(), proxy);
}

/// For an HTTP/2 server: the whole URL, and no Host header.
pub(crate) fn for_http2(request: &mut Request<Outgoing>, route: &Route) {
    let host = request.headers_mut().remove(HOST);
    if request.uri().authority().is_none() {
        let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let mut parts = Parts::default();
        parts.scheme = Some(route.scheme());
        parts.authority = host.or_else(|| route.target.authority(route.port()).parse().ok());
        parts.path_and_query = request.uri().path_and_query().cloned();
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    *request.version_mut() = Version::HTTP_2;
    request.headers_mut().remove(CONNECTION);
}

fn path(request: &Request<Outgoing>) -> PathAndQuery {
    let path = request.uri().path_and_query().cloned();
    path.unwrap_or_else(|| PathAndQuery::from_static("/"))
}

/// What HTTP/1 says in other fields than HTTP/2.
fn fields_of_http1(request: &mut Request<Outgoing>) {
    if request.version() == Version::HTTP_2 {
        headers::join_cookies(request.headers_mut());
    }
    if request.headers().contains_key(TE) {
        // TE is for one connection, which is to know so (RFC 9110 10.1.4).
        let listed = match request.headers().contains_key(UPGRADE) {
            true => "upgrade, te",
            false => "te",
        };
        let listed = HeaderValue::from_static(listed);
        request.headers_mut().insert(CONNECTION, listed);
    }
}
