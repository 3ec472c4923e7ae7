//! Creation of responses. A complete representation needs no allocation.

use std::sync::Arc;

use http::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, RANGE, VARY,
};
use http::{HeaderValue, Method, StatusCode};
use lucarne_log::OpenFile;

use crate::body::Body;
use crate::{etag, range};

pub(crate) type Response = http::Response<Body>;

/// Constant header values, parsed once.
pub(crate) mod value {
    macro_rules! values {
        ($($name:ident = $text:literal,)*) => {
            $(pub(crate) static $name: http::HeaderValue = http::HeaderValue::from_static($text);)*
        };
    }
    values! {
        ANY = "*",
        BYTES = "bytes",
        CLOSE = "close",
        CSS = "text/css; charset=utf-8",
        EVENT_STREAM = "text/event-stream",
        GZIP = "gzip",
        HTML = "text/html; charset=utf-8",
        JAVASCRIPT = "text/javascript; charset=utf-8",
        JSON = "application/json",
        JSON_LINES = "application/jsonl; charset=utf-8",
        LOG_STATE = "log-state",
        NO = "no",
        OCTETS = "application/octet-stream",
        PKIX = "application/pkix-cert",
        TEXT = "text/plain; charset=utf-8",
        MIRROR_INFO = "text/x.tlog.mirror-info",
        TLOG_SIZE = "text/x.tlog.size",
        VARY_ENCODING = "accept-encoding",
        ZSTD = "zstd",

        // Resources that never change.
        FOREVER = "public, max-age=31536000, immutable",
        // Resources that never change, and depend on the query. A shared cache that ignores queries
        // would return the response to another query.
        FOREVER_PRIVATE = "private, max-age=31536000, immutable",
        MOMENT_PRIVATE = "private, max-age=1, must-revalidate",
        // A checkpoint is stale after a second or two.
        MOMENT = "public, max-age=1, must-revalidate",
        // Resources that an operator may change.
        MINUTE = "public, max-age=60",
        NO_STORE = "no-store",
    }
}

/// A representation of a resource, with its caching rules.
pub(crate) struct Representation<'a> {
    pub(crate) bytes: bytes::Bytes,
    /// The file with the same bytes, if the kernel may send the file instead.
    pub(crate) file: Option<Arc<OpenFile>>,
    pub(crate) content_type: &'static HeaderValue,
    pub(crate) cache: &'static HeaderValue,
    pub(crate) etag: &'a HeaderValue,
    /// `Content-Encoding`; ranges are only served without one.
    pub(crate) encoding: Option<&'static HeaderValue>,
    /// Whether the bytes depend on `Accept-Encoding`.
    pub(crate) varies: bool,
}

impl Representation<'_> {
    /// Responds to GET or HEAD with all bytes, a part of the bytes, or 304 if the reader has all
    /// bytes. RFC 9110, section 13.2.2 defines the order of the checks.
    ///
    /// The header map of the request is reused for the response, and hyper reuses it for the next
    /// request of the connection: nothing is allocated.
    pub(crate) fn respond(self, method: &Method, asked: HeaderMap) -> Response {
        if etag::already_there(&asked, self.etag) {
            return self.not_modified(asked);
        }
        let plain = self.encoding.is_none();
        let part = match asked.get(RANGE) {
            Some(wanted)
                if plain && method == Method::GET && etag::range_applies(&asked, self.etag) =>
            {
                range::requested(wanted.as_bytes(), self.bytes.len())
            }
            _ => range::RequestedRange::All,
        };
        let (status, body, content_range) = match part {
            range::RequestedRange::All => {
                let body = Body::stored(self.bytes.clone(), self.file.clone());
                (StatusCode::OK, body, None)
            }
            range::RequestedRange::Satisfiable(part) => {
                let total = self.bytes.len();
                let header = format!("bytes {}-{}/{total}", part.start, part.end - 1);
                (
                    StatusCode::PARTIAL_CONTENT,
                    self.bytes.slice(part).into(),
                    Some(header),
                )
            }
            range::RequestedRange::Unsatisfiable => {
                let header = format!("bytes */{}", self.bytes.len());
                (
                    StatusCode::RANGE_NOT_SATISFIABLE,
                    Body::default(),
                    Some(header),
                )
            }
        };

        let mut headers = self.caching(asked);
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        match self.encoding {
            Some(encoding) => headers.insert(CONTENT_ENCODING, encoding.clone()),
            None => headers.insert(ACCEPT_RANGES, value::BYTES.clone()),
        };
        if let Some(Ok(content_range)) = content_range.map(HeaderValue::try_from) {
            headers.insert(CONTENT_RANGE, content_range);
        }
        respond(status, headers, body)
    }

    fn not_modified(&self, asked: HeaderMap) -> Response {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.headers_mut() = self.caching(asked);
        response
    }

    /// Returns the headers that 200 and 304 share.
    fn caching(&self, mut headers: HeaderMap) -> HeaderMap {
        headers.clear();
        headers.insert(ETAG, self.etag.clone());
        headers.insert(CACHE_CONTROL, self.cache.clone());
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, value::ANY.clone());
        if self.varies {
            headers.insert(VARY, value::VARY_ENCODING.clone());
        }
        headers
    }
}

fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Creates a response without an entity tag and without ranges.
pub(crate) fn plain(
    status: StatusCode,
    content_type: &HeaderValue,
    cache: &HeaderValue,
    bytes: impl Into<bytes::Bytes>,
) -> Response {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, content_type.clone());
    headers.insert(CACHE_CONTROL, cache.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, value::ANY.clone());
    respond(status, headers, Body::from(bytes))
}

/// Converts a response to GET into one to HEAD: the length replaces the body.
pub(crate) fn headed(mut response: Response) -> Response {
    let bytes = std::mem::take(response.body_mut());
    let is_event_stream = response.headers().get(CONTENT_TYPE) == Some(&value::EVENT_STREAM);
    if !is_event_stream
        && !matches!(
            response.status(),
            StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT
        )
    {
        let length = HeaderValue::from(bytes.len());
        response.headers_mut().insert(CONTENT_LENGTH, length);
    }
    response
}

#[cfg(test)]
mod tests {
    use http::header::{IF_NONE_MATCH, IF_RANGE};

    use super::*;

    static TAG: HeaderValue = HeaderValue::from_static("\"t\"");

    fn respond(method: Method, asked: &[(http::HeaderName, &'static str)]) -> Response {
        let asked = asked
            .iter()
            .map(|(n, v)| (n.clone(), HeaderValue::from_static(v)));
        let representation = Representation {
            bytes: bytes::Bytes::from_static(b"0123456789"),
            file: None,
            content_type: &value::OCTETS,
            cache: &value::FOREVER,
            etag: &TAG,
            encoding: None,
            varies: false,
        };
        representation.respond(&method, asked.collect())
    }

    #[test]
    fn nothing_of_the_request_comes_back() {
        let response = respond(Method::GET, &[(http::header::COOKIE, "secret")]);
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key(http::header::COOKIE));
        assert_eq!(&response.body().bytes()[..], b"0123456789");
    }

    #[test]
    fn head_has_the_length_and_no_body() {
        let response = headed(respond(Method::HEAD, &[(RANGE, "bytes=0-1")]));
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[CONTENT_LENGTH], "10");
        assert!(response.body().bytes().is_empty());
    }

    #[test]
    fn conditions_come_before_ranges() {
        let response = respond(
            Method::GET,
            &[(IF_NONE_MATCH, "\"t\""), (RANGE, "bytes=0-1")],
        );
        assert_eq!(response.status(), 304);
        assert_eq!(response.headers()[ETAG], "\"t\"");
        let response = respond(
            Method::GET,
            &[(IF_NONE_MATCH, "\"u\""), (RANGE, "bytes=2-3")],
        );
        assert_eq!(response.status(), 206);
        assert_eq!(response.headers()[CONTENT_RANGE], "bytes 2-3/10");
        assert_eq!(&response.body().bytes()[..], b"23");
        let response = respond(Method::GET, &[(IF_RANGE, "\"u\""), (RANGE, "bytes=2-3")]);
        assert_eq!(response.status(), 200);
        let response = respond(Method::GET, &[(RANGE, "bytes=10-")]);
        assert_eq!(response.status(), 416);
        assert_eq!(response.headers()[CONTENT_RANGE], "bytes */10");
    }
}
