//! Responses to requests for the proxy itself: a description, and the CA certificate to trust.

use http::header::{CONTENT_DISPOSITION, HeaderValue};
use http::{Method, Request, Response, StatusCode};

use crate::body::Body;
use crate::core::Core;
use crate::hops;
use crate::page::response;

const TEXT: &str = "text/plain; charset=utf-8";

/// Responds to a request that names no server. Returns `None` for unknown paths and methods.
pub(crate) fn respond_own<B>(core: &Core, request: &Request<B>) -> Option<Response<Body>> {
    if *request.method() == Method::OPTIONS && request.uri().path() == "*" {
        return Some(hops::options());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    Some(match request.uri().path() {
        "/" => response(StatusCode::OK, TEXT, WELCOME),
        "/ca.pem" => file("application/x-pem-file", "lucarne-ca.pem", core.ca_pem()),
        "/ca.crt" => file(
            "application/x-x509-ca-cert",
            "lucarne-ca.crt",
            core.ca_der(),
        ),
        _ => return None,
    })
}

const WELCOME: &str = "This is a Lucarne proxy.\n\n\
    Set this address as HTTP and HTTPS proxy of your client, and let it trust\n\
    the CA whose certificate is at /ca.pem (PEM) and /ca.crt (DER).\n";

fn file(kind: &'static str, name: &str, bytes: impl Into<bytes::Bytes>) -> Response<Body> {
    let mut response = response(StatusCode::OK, kind, bytes);
    let disposition = format!("attachment; filename=\"{name}\"");
    if let Ok(value) = HeaderValue::try_from(disposition) {
        response.headers_mut().insert(CONTENT_DISPOSITION, value);
    }
    response
}
