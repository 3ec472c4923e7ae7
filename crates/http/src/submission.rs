//! The submission API (RFC 6962, 4.1, 4.2 and 4.7): what submitters get.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap,
};
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt;
use lucarne_ct::{Chain, EntryKind};
use lucarne_log::Log;

use crate::body::Body;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::reply::{Response, plain, value};

/// `add-chain` and `add-pre-chain`: an SCT, or why there is none.
pub(crate) async fn add<B>(
    log: &Log,
    kind: EntryKind,
    limits: &Limits,
    headers: HeaderMap,
    body: B,
) -> Response
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    match submit(log, kind, limits, &headers, body).await {
        Ok(sct) => answer(headers, sct),
        Err(refusal) => refusal.into_response(),
    }
}

async fn submit<B>(
    log: &Log,
    kind: EntryKind,
    limits: &Limits,
    headers: &HeaderMap,
    body: B,
) -> Result<Vec<u8>, Refusal>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    refuse_encoded(headers)?;
    let body = collect(body, limits.body_bytes, limits.body_timeout).await?;
    let decoding = lucarne_ct::Limits {
        max_body: limits.body_bytes,
    };
    let chain = Chain::decode_json(&body, &decoding)?;
    // The chain has its own copy: do not hold the body for a whole round.
    drop(body);
    let sct = log.submit(kind, chain).await?;
    Ok(sct.to_json())
}

fn answer(mut headers: HeaderMap, sct: Vec<u8>) -> Response {
    headers.clear();
    headers.insert(CONTENT_TYPE, value::JSON.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, value::ANY.clone());
    let mut response = Response::new(Body::from(sct));
    *response.headers_mut() = headers;
    response
}

/// A compressed body is refused unread: nothing in a chain compresses well
/// enough to be worth a decompressor that strangers can feed.
fn refuse_encoded(headers: &HeaderMap) -> Result<(), Refusal> {
    let plain = |coding: &HeaderValue| {
        coding.is_empty() || coding.as_bytes().eq_ignore_ascii_case(b"identity")
    };
    match headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .find(|coding| !plain(coding))
    {
        None => Ok(()),
        Some(coding) => Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "content_encoding",
            format!(
                "the body has Content-Encoding {:?}; send the JSON as it is, without compression",
                String::from_utf8_lossy(coding.as_bytes())
            ),
        )
        .and_close()),
    }
}

/// The whole body, up to `limit` bytes, within `patience`. A body that comes
/// in one piece, as most do, is not copied.
async fn collect<B>(mut body: B, limit: usize, patience: Duration) -> Result<Bytes, Refusal>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let declared = body.size_hint().exact().map(|length| length as usize);
    if declared.is_some_and(|length| length > limit) {
        return Err(Refusal::too_large(limit));
    }
    let whole = async {
        let Some(first) = next(&mut body).await? else {
            return Ok(Bytes::new());
        };
        if first.len() > limit {
            return Err(Refusal::too_large(limit));
        }
        if declared == Some(first.len()) {
            return Ok(first);
        }
        let mut whole = BytesMut::with_capacity(declared.unwrap_or(first.len() * 2));
        whole.extend_from_slice(&first);
        while let Some(more) = next(&mut body).await? {
            if whole.len() + more.len() > limit {
                return Err(Refusal::too_large(limit));
            }
            whole.extend_from_slice(&more);
        }
        Ok(whole.freeze())
    };
    // The timer is armed only if the body is not there already.
    match tokio::time::timeout(patience, whole).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_timeout",
            format!(
                "the body was not complete after {} s",
                patience.as_secs_f32()
            ),
        )
        .and_close()),
    }
}

/// The next piece of a body that is data.
async fn next<B>(body: &mut B) -> Result<Option<Bytes>, Refusal>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => {
                let detail = format!("the body broke off: {error}");
                let status = StatusCode::BAD_REQUEST;
                return Err(Refusal::new(status, "incomplete_body", detail).and_close());
            }
        }
    }
}

/// `get-roots`: built once per change of the roots.
pub(crate) fn roots(log: &Log) -> Response {
    let json = log.roots().get_roots_json();
    plain(StatusCode::OK, &value::JSON, &value::MINUTE, json)
}

/// OPTIONS, so that a page from anywhere may submit and read (CORS).
pub(crate) fn options(allow: &'static str) -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let allow = HeaderValue::from_static(allow);
    headers.insert(ALLOW, allow.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, value::ANY.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, allow);
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("content-type, if-none-match, range"),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};

    use super::*;

    type Piece = Result<http_body::Frame<Bytes>, String>;

    /// A body in pieces, of unknown length; pending for ever after the last
    /// piece if `stuck`.
    fn pieces(
        pieces: Vec<Result<&'static [u8], String>>,
    ) -> impl http_body::Body<Data = Bytes, Error = String> + Unpin {
        let pieces = pieces
            .into_iter()
            .map(|p| -> Piece { p.map(|bytes| http_body::Frame::data(Bytes::from_static(bytes))) });
        StreamBody::new(futures_util::stream::iter(pieces))
    }

    const PATIENCE: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn one_piece_is_not_copied() {
        let bytes = Bytes::from_static(b"{\"chain\":[]}");
        let whole = collect(Full::new(bytes.clone()), 100, PATIENCE)
            .await
            .unwrap();
        assert_eq!(whole.as_ptr(), bytes.as_ptr());
    }

    #[tokio::test]
    async fn pieces_are_put_together() {
        let whole = collect(pieces(vec![Ok(b"abc"), Ok(b"de"), Ok(b"f")]), 6, PATIENCE).await;
        assert_eq!(&whole.unwrap()[..], b"abcdef");
    }

    #[tokio::test]
    async fn limits_hold_with_and_without_a_length() {
        let full = Full::new(Bytes::from_static(b"abcdefg"));
        let refusal = collect(full, 6, PATIENCE).await.unwrap_err();
        assert_eq!(refusal.into_response().status(), 413);
        let chunked = pieces(vec![Ok(b"abc"), Ok(b"defg")]);
        let refusal = collect(chunked, 6, PATIENCE).await.unwrap_err();
        assert_eq!(refusal.into_response().status(), 413);
        let chunked = pieces(vec![Ok(b"abcdefg")]);
        let refusal = collect(chunked, 6, PATIENCE).await.unwrap_err();
        assert_eq!(refusal.into_response().status(), 413);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_the_clients_fault() {
        let broken = pieces(vec![Ok(b"abc"), Err("gone".into())]);
        let refusal = collect(broken, 6, PATIENCE).await.unwrap_err();
        assert_eq!(refusal.into_response().status(), 400);
    }

    #[tokio::test]
    async fn compressed_bodies_are_refused() {
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
        let response = refuse_encoded(&headers).unwrap_err().into_response();
        assert_eq!(response.status(), 415);
        assert_eq!(response.headers()["accept-encoding"], "identity");
        let headers =
            HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("Identity"))]);
        assert!(refuse_encoded(&headers).is_ok());
    }
}
