//! The submission API (RFC 6962, sections 4.1, 4.2 and 4.7).

use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap,
};
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt;
use lucarne_ct::{Chain, EntryKind};
use lucarne_log::{Log, StepTimes};
use lucarne_net::RequestId;
use tracing::Instrument;

use crate::body::Body;
use crate::budget::{Client, Reservation};
use crate::error_response::ErrorResponse;
use crate::limits::Limits;
use crate::reply::{Response, value};
use crate::trace::{TracedSubmission, Tracer};

/// The body of a submission.
pub(crate) trait RequestBody: http_body::Body<Data = Bytes, Error: Display> + Unpin {}

impl<B: http_body::Body<Data = Bytes, Error: Display> + Unpin> RequestBody for B {}

/// `add-chain` and `add-pre-chain`: returns an SCT or an error.
pub(crate) async fn add<B: RequestBody>(
    log: &Log,
    kind: EntryKind,
    limits: &Limits,
    tracer: Option<&Arc<dyn Tracer>>,
    client: &Arc<Client>,
    headers: HeaderMap,
    body: B,
) -> Response {
    let id = RequestId::new();
    let trace = tracer.and_then(|tracer| tracer.begin(&headers));
    let mut steps = match &trace {
        Some(_) => StepTimes::since(Instant::now()),
        None => StepTimes::default(),
    };
    let span = tracing::debug_span!("submission", log = log.config().shortname, %id);
    let submitted = async {
        match submit(log, kind, limits, client, (&headers, body), &mut steps).await {
            Ok(sct) => Ok(sct),
            Err(error) => {
                tracing::debug!("refused: {error}");
                Err(error.of_request(id))
            }
        }
    };
    let response = match submitted.instrument(span).await {
        Ok(sct) => response(headers, sct),
        Err(error) => error.into_response(),
    };
    if let Some(trace) = trace {
        trace.end(TracedSubmission {
            name: match kind {
                EntryKind::X509 => "add-chain",
                EntryKind::Precert => "add-pre-chain",
            },
            log: &log.config().shortname,
            id,
            status: response.status(),
            steps: steps.into_steps(),
        });
    }
    response
}

async fn submit<B: RequestBody>(
    log: &Log,
    kind: EntryKind,
    limits: &Limits,
    client: &Arc<Client>,
    (headers, body): (&HeaderMap, B),
    steps: &mut StepTimes,
) -> Result<Vec<u8>, ErrorResponse> {
    let body = self::body(headers, body, limits.body_bytes, limits, client).await;
    steps.end("read");
    let body = body?;
    if log.is_starting() {
        let started = await_start(log, size(headers) + body.len(), limits, client).await;
        steps.end("open");
        started?;
    }
    let chain = decode(&body, limits);
    steps.end("decode");
    let chain = chain?;
    // The chain has its own copy, so that the body need not be kept for a whole round.
    drop(body);
    let sct = log.submit_in_steps(kind, chain, steps).await?;
    Ok(sct.to_json())
}

fn decode(body: &[u8], limits: &Limits) -> Result<Chain, ErrorResponse> {
    let limits = lucarne_ct::ChainLimits {
        max_body: limits.body_bytes,
    };
    Ok(Chain::decode_json(body, &limits)?)
}

/// `check-chain`: returns whether the log would accept a chain, or the reason why not. Nothing is
/// logged. Submitting a chain that is already logged is not a sufficient test, because its
/// signatures are not verified again.
pub(crate) async fn check<B: RequestBody>(
    log: &Log,
    limits: &Limits,
    client: &Arc<Client>,
    headers: HeaderMap,
    body: B,
) -> Response {
    let judged = async {
        let body = self::body(&headers, body, limits.body_bytes, limits, client).await?;
        Ok::<_, ErrorResponse>(log.judge(&decode(&body, limits)?)?)
    };
    match judged.await {
        Ok(EntryKind::X509) => response(headers, br#"{"accepted":true,"on":"add-chain"}"#.to_vec()),
        Ok(EntryKind::Precert) => response(
            headers,
            br#"{"accepted":true,"on":"add-pre-chain"}"#.to_vec(),
        ),
        Err(error) => error.into_response(),
    }
}

/// Lets a submission wait for a log that is being opened. A restart or a handover between two
/// processes ends sooner than a client would retry.
async fn await_start(
    log: &Log,
    bytes: usize,
    limits: &Limits,
    client: &Arc<Client>,
) -> Result<(), ErrorResponse> {
    let mut held = Reservation::nothing(client);
    held.grow(bytes)?;
    // If the log is still not open after this wait, the log refuses the submission.
    let _ = tokio::time::timeout(limits.start_timeout, log.started()).await;
    Ok(())
}

fn response(mut headers: HeaderMap, json: Vec<u8>) -> Response {
    headers.clear();
    headers.insert(CONTENT_TYPE, value::JSON.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, value::ANY.clone());
    let mut response = Response::new(Body::from(json));
    *response.headers_mut() = headers;
    response
}

/// Refuses a compressed body without reading it: a chain hardly compresses, and a decompressor
/// would only be an attack surface.
fn refuse_encoded(headers: &HeaderMap) -> Result<(), ErrorResponse> {
    let plain = |coding: &HeaderValue| {
        coding.is_empty() || coding.as_bytes().eq_ignore_ascii_case(b"identity")
    };
    match headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .find(|coding| !plain(coding))
    {
        None => Ok(()),
        Some(coding) => Err(ErrorResponse::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "content_encoding",
            format!(
                "the body has Content-Encoding {:?}; send the body without compression",
                String::from_utf8_lossy(coding.as_bytes())
            ),
        )
        .and_close()),
    }
}

/// Returns the whole body of at most `limit` bytes, within the client's budget. A body that arrives
/// in one piece, as most do, is not copied.
pub(crate) async fn body<B: RequestBody>(
    headers: &HeaderMap,
    mut body: B,
    limit: usize,
    limits: &Limits,
    client: &Arc<Client>,
) -> Result<Bytes, ErrorResponse> {
    refuse_encoded(headers)?;
    let declared = body.size_hint().exact().map(|length| length as usize);
    if declared.is_some_and(|length| length > limit) {
        return Err(ErrorResponse::too_large(limit));
    }
    let mut held = Reservation::nothing(client);
    let whole = async {
        let mut piece = match next(&mut body).now_or_never() {
            Some(first) => first?,
            None => {
                // The head of the request stays in memory, too.
                held.grow(size(headers))?;
                next(&mut body).await?
            }
        };
        if let Some(first) = piece.take_if(|first| declared == Some(first.len())) {
            return Ok(first);
        }
        let mut whole = BytesMut::new();
        while let Some(more) = piece {
            let length = whole.len() + more.len();
            if length > limit {
                return Err(ErrorResponse::too_large(limit));
            }
            if length > whole.capacity() {
                let room = declared.unwrap_or(2 * length).clamp(length, limit);
                held.grow(size(headers) + room)?;
                whole.reserve(room - whole.len());
            }
            whole.extend_from_slice(&more);
            // The piece may be the last reference to a larger buffer.
            drop(more);
            piece = next(&mut body).await?;
        }
        Ok(whole.freeze())
    };
    // The timer is only started if the body is not complete already.
    match tokio::time::timeout(limits.body_timeout, whole).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ErrorResponse::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_timeout",
            format!(
                "the body was not complete after {} s",
                limits.body_timeout.as_secs_f32()
            ),
        )
        .and_close()),
    }
}

/// Returns the approximate size of a request head in bytes.
fn size(headers: &HeaderMap) -> usize {
    let sizes = headers.iter();
    sizes
        .map(|(name, value)| name.as_str().len() + value.len() + 32)
        .sum()
}

/// Returns the next data frame of a body.
pub(crate) async fn next<B: RequestBody>(body: &mut B) -> Result<Option<Bytes>, ErrorResponse> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => {
                let detail = format!("the body was cut off: {error}");
                let status = StatusCode::BAD_REQUEST;
                return Err(ErrorResponse::new(status, "incomplete_body", detail).and_close());
            }
        }
    }
}

/// Responds to OPTIONS, so that pages of any origin may submit and read (CORS).
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
        HeaderValue::from_static("content-type, if-none-match, last-event-id, range"),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use http_body_util::{Full, StreamBody};

    use super::*;
    use crate::budget::{Budget, BudgetMetrics};

    /// A page may continue the feed after its last event. `EventSource` sends the field by itself,
    /// but `fetch` needs the permission.
    #[test]
    fn pages_may_send_the_fields_of_readers() {
        let response = options("GET, HEAD, OPTIONS");
        let allowed = &response.headers()[ACCESS_CONTROL_ALLOW_HEADERS];
        let allowed = allowed.to_str().unwrap();
        for field in ["content-type", "if-none-match", "last-event-id", "range"] {
            let mut fields = allowed.split(", ");
            assert!(fields.any(|it| it == field), "{field}");
        }
    }

    type Piece = io::Result<http_body::Frame<Bytes>>;

    /// Returns a body in pieces, of unknown length, that never ends if `stuck`.
    fn pieces(
        pieces: Vec<io::Result<&'static [u8]>>,
    ) -> impl http_body::Body<Data = Bytes, Error = io::Error> + Unpin {
        let pieces = pieces
            .into_iter()
            .map(|p| -> Piece { p.map(|bytes| http_body::Frame::data(Bytes::from_static(bytes))) });
        StreamBody::new(futures_util::stream::iter(pieces))
    }

    /// Collects a body of at most `limit` bytes from a client with a budget of twice as many.
    async fn collected<B: RequestBody>(body: B, limit: usize) -> Result<Bytes, ErrorResponse> {
        let limits = Limits {
            body_bytes: limit,
            body_timeout: Duration::from_millis(50),
            inflight_bytes: 2 * limit,
            client_inflight_bytes: 2 * limit,
            ..Limits::default()
        };
        let budget = Budget::new(&limits, BudgetMetrics::default());
        let client = budget.client(Ipv4Addr::LOCALHOST.into()).unwrap();
        super::body(&HeaderMap::new(), body, limit, &limits, &client).await
    }

    #[tokio::test]
    async fn one_piece_is_not_copied() {
        let bytes = Bytes::from_static(b"{\"chain\":[]}");
        let whole = collected(Full::new(bytes.clone()), 100).await.unwrap();
        assert_eq!(whole.as_ptr(), bytes.as_ptr());
    }

    #[tokio::test]
    async fn pieces_are_put_together() {
        let whole = collected(pieces(vec![Ok(b"abc"), Ok(b"de"), Ok(b"f")]), 6).await;
        assert_eq!(&whole.unwrap()[..], b"abcdef");
        assert!(collected(pieces(vec![]), 6).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn limits_hold_with_and_without_a_length() {
        let full = Full::new(Bytes::from_static(b"abcdefg"));
        let error = collected(full, 6).await.unwrap_err();
        assert_eq!(error.into_response().status(), 413);
        for chunked in [vec![Ok(&b"abc"[..]), Ok(b"defg")], vec![Ok(b"abcdefg")]] {
            let error = collected(pieces(chunked), 6).await.unwrap_err();
            assert_eq!(error.into_response().status(), 413);
        }
    }

    #[tokio::test]
    async fn a_client_that_holds_all_it_may_is_told_so() {
        let limits = Limits {
            inflight_bytes: 100,
            client_inflight_bytes: 100,
            ..Limits::default()
        };
        let budget = Budget::new(&limits, BudgetMetrics::default());
        let client = budget.client(Ipv4Addr::LOCALHOST.into()).unwrap();
        let mut others = Reservation::nothing(&client);
        others.grow(98).unwrap();
        let headers = HeaderMap::new();
        let collect = async |body| {
            super::body(&headers, body, limits.body_bytes, &limits, &client)
                .await
                .map_err(ErrorResponse::into_response)
        };
        let two = || http_body_util::Either::Left(pieces(vec![Ok(b"a"), Ok(b"b")]));
        assert!(collect(two()).await.is_ok());
        others.grow(99).unwrap();
        let response = collect(two()).await.unwrap_err();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
        // A complete body is not subject to the timeout.
        let there = Full::new(Bytes::from_static(b"ab"));
        assert!(collect(http_body_util::Either::Right(there)).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_the_clients_fault() {
        let broken = pieces(vec![Ok(b"abc"), Err(io::ErrorKind::ConnectionReset.into())]);
        let error = collected(broken, 6).await.unwrap_err();
        assert_eq!(error.into_response().status(), 400);
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
