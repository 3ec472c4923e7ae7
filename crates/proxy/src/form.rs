//! Forms of a request, depending on its next hop.

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::uri::{Authority, Parts, PathAndQuery};
use http::{HeaderValue, Request, Uri, Version};
use hyper::body::Body as _;

use crate::headers;
use crate::outgoing::Outgoing;
use crate::pool::Route;
use crate::relay;
use crate::upstream_proxy::UpstreamProxy;

/// Rewrites the request for an HTTP/1 server: the path alone, and a `Host` header.
///
/// The path stays `*`, the whole server, if the client sent `*`. A URL without a path means the
/// same (RFC 9112, section 3.2.4), but the parser has added a slash to this URL.
pub(crate) fn for_http1(request: &mut Request<Outgoing>) {
    fields_of_http1(request);
    if let Some(authority) = request.uri().authority() {
        // A request that was prepared for HTTP/2 has its host in the authority only.
        if !request.headers().contains_key(HOST)
            && let Ok(host) = HeaderValue::try_from(authority.as_str())
        {
            request.headers_mut().insert(HOST, host);
        }
        *request.uri_mut() = Uri::from(path(request));
    }
    *request.version_mut() = Version::HTTP_11;
}

/// Rewrites the request for a forwarding proxy: the whole URL, and the proxy credentials.
pub(crate) fn for_forwarder(request: &mut Request<Outgoing>, route: &Route, proxy: &UpstreamProxy) {
    fields_of_http1(request);
    let path = match path(request) {
        // A URL cannot express `*`.
        path if path == "*" => PathAndQuery::from_static("/"),
        path => path,
    };
    let url = Uri::builder()
        .scheme(route.scheme())
        .authority(route.target.authority(route.port()))
        .path_and_query(path);
    // Building the URL succeeds, because the received request had a URL with the same parts.
    if let Ok(url) = url.build() {
        *request.uri_mut() = url;
    }
    *request.version_mut() = Version::HTTP_11;
    relay::authorize(request.headers_mut(), proxy);
}

/// Rewrites the request for an HTTP/2 server: the whole URL, and no `Host` header.
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
    request.headers_mut().remove(TRANSFER_ENCODING);
}

fn path(request: &Request<Outgoing>) -> PathAndQuery {
    let path = request.uri().path_and_query().cloned();
    path.unwrap_or_else(|| PathAndQuery::from_static("/"))
}

/// Converts the fields that HTTP/1 writes differently from HTTP/2.
fn fields_of_http1(request: &mut Request<Outgoing>) {
    if request.version() == Version::HTTP_2 {
        headers::join_cookies(request.headers_mut());
    }
    // Without this field, hyper sends no body of unknown length in a GET or HEAD request.
    if !request.body().is_end_stream() && !request.headers().contains_key(CONTENT_LENGTH) {
        let chunked = HeaderValue::from_static("chunked");
        request.headers_mut().insert(TRANSFER_ENCODING, chunked);
    }
    if request.headers().contains_key(TE) {
        // TE applies to one connection, so CONNECTION must list it (RFC 9110, section 10.1.4).
        let listed = if request.headers().contains_key(UPGRADE) {
            "upgrade, te"
        } else {
            "te"
        };
        let listed = HeaderValue::from_static(listed);
        request.headers_mut().insert(CONNECTION, listed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    /// The case of a server that spoke HTTP/2 before and now speaks HTTP/1.1.
    #[test]
    fn a_request_keeps_its_host_from_one_form_to_the_next() {
        for (sent, expected) in [
            (Some("www.a.example:8443"), "www.a.example:8443"),
            (None, "a.example"),
        ] {
            let target = Target::parse("a.example:443", 443).unwrap();
            let route = Route {
                tls: Some(target.host.clone()),
                target,
                through: None,
                forwarded: false,
                client: None,
                owner: None,
            };
            let mut request = Request::get("/x?y").body(Outgoing::empty()).unwrap();
            if let Some(host) = sent {
                let host = HeaderValue::from_static(host);
                request.headers_mut().insert(HOST, host);
            }
            for_http2(&mut request, &route);
            assert_eq!(request.uri().authority().unwrap(), expected);
            for_http1(&mut request);
            assert_eq!(request.headers()[HOST], expected);
            assert_eq!(request.uri(), "/x?y");
            for_http2(&mut request, &route);
            assert_eq!(request.uri().authority().unwrap(), expected);
        }
    }
}
