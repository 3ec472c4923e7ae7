//! Words for the responses that hyper sends to a request with an invalid head.
//!
//! hyper calls no service for these requests, and its responses have no body. [`InterimStream`]
//! replaces them when hyper writes them.
//!
//! [`InterimStream`]: crate::interim::InterimStream

use http::StatusCode;

use crate::failure::Failure;
use crate::page;

/// The fields of hyper's responses. A forwarded response cannot have exactly these fields in this
/// order, because hyper adds `Connection` after the fields of the server.
const FIELDS: &[u8] = b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Returns the response with words in place of `written`, if this is a response of hyper to an
/// invalid head. `head_bytes` is the size limit of a head.
pub(crate) fn in_place_of(written: &[u8], head_bytes: usize) -> Option<String> {
    let line = written.strip_suffix(FIELDS)?.strip_prefix(b"HTTP/1.1 ")?;
    let failure = match line.get(..3)? {
        b"400" => Failure::Head(StatusCode::BAD_REQUEST, INVALID.to_owned()),
        b"414" => Failure::Head(
            StatusCode::URI_TOO_LONG,
            "The URL has more than 65,534 bytes.".to_owned(),
        ),
        b"431" => Failure::large_head(head_bytes),
        _ => return None,
    };
    let text = page::text(&failure, None);
    Some(format!(
        "HTTP/1.1 {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Proxy-Status: {}\r\nConnection: close\r\n\r\n{text}",
        failure.status(),
        text.len(),
        failure.proxy_status()
    ))
}

const INVALID: &str = "The request line or a header field is not valid HTTP/1.1 (RFC 9112). In a \
    URL, characters such as `\"` after the `?` must be percent-encoded (`%22`). A field is \
    `name: value` without a space before the colon, and Content-Length is one number.";
