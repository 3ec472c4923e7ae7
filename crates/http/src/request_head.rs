//! Checks of request heads that hyper leaves to the server.

use http::header::{HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::{StatusCode, Version};
use http_body::Body;

use crate::error_response::ErrorResponse;

/// Refuses a request without `Host`, with several `Host` fields, with a `Host` other than its
/// `:authority`, or with transfer codings other than one `chunked`. A proxy in front of the server
/// could see another host or another body in these requests.
pub(crate) fn check(parts: &Parts, body: &impl Body) -> Result<(), ErrorResponse> {
    check_host(parts)?;
    // HTTP/2 has frames. In HTTP/1, only a body with transfer codings has an unknown length.
    if parts.version < Version::HTTP_2 && body.size_hint().exact().is_none() {
        check_codings(&parts.headers)?;
    }
    Ok(())
}

/// RFC 9112, section 3.2: HTTP/1.1 requires one `Host`. HTTP/1.0 does not require the field. RFC
/// 9113, section 8.3.1: in HTTP/2, the field is optional, and must not differ from `:authority`.
fn check_host(parts: &Parts) -> Result<(), ErrorResponse> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let detail = match (hosts.next(), hosts.next()) {
        (Some(host), None) if differs(parts, host) => {
            "the Host field differs from :authority; send only :authority"
        }
        (Some(_), None) => return Ok(()),
        (None, _) if parts.version != Version::HTTP_11 => return Ok(()),
        (None, _) => "the request has no Host field, which HTTP/1.1 requires",
        (Some(_), Some(_)) => "the request has several Host fields; expected one",
    };
    Err(ErrorResponse::read(StatusCode::BAD_REQUEST, "bad_host", detail).and_close())
}

fn differs(parts: &Parts, host: &HeaderValue) -> bool {
    let authority = parts.uri.authority().map(|it| it.as_str().as_bytes());
    parts.version >= Version::HTTP_2
        && authority.is_some_and(|it| !it.eq_ignore_ascii_case(host.as_bytes()))
}

/// RFC 9112, section 6.1: an unknown coding is not implemented, and a body is chunked only once.
/// hyper refuses a body whose last coding is not `chunked`.
fn check_codings(headers: &HeaderMap) -> Result<(), ErrorResponse> {
    let fields = headers.get_all(TRANSFER_ENCODING).iter();
    let codings = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
    let codings = codings.map(<[u8]>::trim_ascii);
    let mut chunked = 0;
    for coding in codings.filter(|coding| !coding.is_empty()) {
        if !coding.eq_ignore_ascii_case(b"chunked") {
            let coding = String::from_utf8_lossy(coding);
            let detail = format!(
                "the body has the transfer coding {coding:?}; send the body with Content-Length, or \
                 chunked"
            );
            return Err(codings_refused(StatusCode::NOT_IMPLEMENTED, detail));
        }
        chunked += 1;
    }
    if chunked > 1 {
        let detail = "the body has the transfer coding chunked several times; expected once";
        return Err(codings_refused(StatusCode::BAD_REQUEST, detail));
    }
    Ok(())
}

fn codings_refused(status: StatusCode, detail: impl Into<String>) -> ErrorResponse {
    ErrorResponse::read(status, "transfer_coding", detail).and_close()
}
