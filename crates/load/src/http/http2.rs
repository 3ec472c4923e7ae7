//! HTTP/2 on one connection, by hyper.

use std::convert::Infallible;
use std::error::Error as _;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use h2::Reason;
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::answer::MAX_HEAD;
use super::exchange::Record;
use super::options::WITHOUT_HTTP2;
use super::stream::Stream;
use super::{Body, Endpoint, Headers, Request, http1, kind};
use crate::Failure;

/// The detail of a failed body whose stream was reset with NO_ERROR.
const CUT_OFF: &str = "the server reset the stream before the end of the body";

/// Maximum time from the failure of a request to the end of its connection.
const CLOSING: Duration = Duration::from_millis(100);

/// A connection; closed when it is dropped.
#[derive(Debug)]
pub(super) struct Http2 {
    sender: SendRequest<Payload>,
    /// `None` after a failed request has taken the result.
    task: Option<JoinHandle<hyper::Result<()>>>,
}

impl Drop for Http2 {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Http2 {
    pub(super) async fn open(stream: Stream) -> Result<Self, Failure> {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .max_header_list_size(MAX_HEAD as u32)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(&error, false))?;
        let task = Some(tokio::spawn(connection));
        Ok(Self { sender, task })
    }

    /// Returns the same connection for concurrent requests. `self` still owns the connection.
    pub(super) fn share(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            task: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends `request` and reads the response into `record`. `sending` ends when the connection has
    /// accepted the last byte of the body.
    pub(super) async fn exchange(
        &mut self,
        request: &Request<'_>,
        endpoint: &Endpoint,
        token: Option<&str>,
        record: &mut Record<'_>,
    ) -> Result<(), Failure> {
        let taken = Arc::new(OnceLock::new());
        let request = convert(request, endpoint, token, taken.clone())?;
        let sent = cost(request.headers()) + request.uri().path().len() as u64;
        let length = request.body().size_hint().exact().unwrap_or(0);
        let answer = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(error) => return Err(self.failure(&error, false).await),
        };
        let first = Instant::now();
        record.first = Some(first);
        record.sent = Some(taken.get().copied().unwrap_or(first).min(first));
        record.bytes_out += sent + length;

        let (head, body) = answer.into_parts();
        record.bytes_in += cost(&head.headers);
        record.answer.status = head.status.as_u16();
        record.answer.headers = lines(&head.headers);
        record.answer.keep = true;
        let announced = body.size_hint().lower();
        record.answer.body.begin(&record.answer.headers);
        record.answer.body.announce(announced)?;
        self.read(body, record).await
    }

    async fn read(&mut self, mut body: Incoming, record: &mut Record<'_>) -> Result<(), Failure> {
        let answer = &mut record.answer;
        loop {
            let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            let Some(frame) = frame.await else {
                // hyper ends a body without an error if its stream is reset with NO_ERROR,
                // although the rest of the body may be missing.
                return if body.is_end_stream() {
                    Ok(())
                } else {
                    Err(Failure::new(kind::BODY, CUT_OFF))
                };
            };
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => return Err(self.failure(&error, true).await),
            };
            let Ok(data) = frame.into_data() else {
                continue; // trailers
            };
            record.bytes_in += data.len() as u64;
            answer.body.push(&answer.headers, &data)?;
        }
    }

    /// Returns the failure of a request whose connection or stream had this error.
    async fn failure(&mut self, error: &hyper::Error, in_body: bool) -> Failure {
        let has_code = |error: &h2::Error| error.is_reset() || error.is_go_away();
        if h2_error(error).is_some_and(has_code) {
            return failed(error, in_body);
        }
        // h2 reports the end of a connection to its streams, but the code of an earlier GOAWAY only
        // to the connection.
        let end = self.end().await;
        failed(end.as_ref().unwrap_or(error), in_body)
    }

    /// Waits for the end of a failed connection. Returns its error if a side sent GOAWAY.
    async fn end(&mut self) -> Option<hyper::Error> {
        let mut task = self.task.take()?;
        let ended = timeout(CLOSING, &mut task).await;
        task.abort();
        let error = ended.ok()?.ok()?.err()?;
        h2_error(&error)
            .is_some_and(h2::Error::is_go_away)
            .then_some(error)
    }
}

fn convert(
    request: &Request<'_>,
    endpoint: &Endpoint,
    token: Option<&str>,
    taken: Arc<OnceLock<Instant>>,
) -> Result<http::Request<Payload>, Failure> {
    let wrong = |error: http::Error| Failure::new(kind::REQUEST, error.to_string());
    let mut authority = endpoint.authority.as_str();
    let mut headers = HeaderMap::with_capacity(request.headers.len() + 2);
    headers.insert(USER_AGENT, HeaderValue::from_static(super::USER_AGENT));
    if let Some(token) = token {
        let bearer = HeaderValue::try_from(format!("Bearer {token}"));
        headers.insert(AUTHORIZATION, bearer.map_err(|e| wrong(e.into()))?);
    }
    let own = request.headers.iter();
    for (name, value) in own.filter(|(name, _)| !http1::is_framing(name)) {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|e| wrong(e.into()))?;
        match name {
            // HTTP/2 has a pseudo-header for the host.
            HOST => authority = value,
            name => {
                let value = HeaderValue::from_str(value).map_err(|e| wrong(e.into()))?;
                match name {
                    USER_AGENT | AUTHORIZATION => _ = headers.insert(name, value),
                    name => _ = headers.append(name, value),
                }
            }
        }
    }
    let data = match request.body {
        Body::Empty => Bytes::new(),
        Body::One(bytes) => Bytes::copy_from_slice(bytes),
        Body::Parts(parts) => parts.concat().into(),
    };
    let uri = http::Uri::builder()
        .scheme(endpoint.scheme())
        .authority(authority)
        .path_and_query(request.path_and_query)
        .build()
        .map_err(wrong)?;
    let mut converted = http::Request::new(Payload { data, taken });
    *converted.method_mut() = request.method.clone();
    *converted.uri_mut() = uri;
    *converted.headers_mut() = headers;
    Ok(converted)
}

/// Returns the length of names and values, before compression.
fn cost(headers: &HeaderMap) -> u64 {
    let lengths = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    lengths.sum::<usize>() as u64
}

fn lines(headers: &HeaderMap) -> Headers {
    let mut lines = BytesMut::with_capacity(cost(headers) as usize + headers.len() * 4);
    for (name, value) in headers {
        lines.put_slice(name.as_str().as_bytes());
        lines.put_slice(b": ");
        lines.put_slice(value.as_bytes());
        lines.put_slice(b"\r\n");
    }
    Headers::new(lines.freeze())
}

fn failed(error: &hyper::Error, in_body: bool) -> Failure {
    let (kind, detail) = match h2_error(error) {
        // h2 has one error for both reasons.
        Some(cause) if cause.is_library() && cause.is_reset() && !in_body => (
            kind::PROTOCOL,
            format!("the head of the response is longer than 64 KiB, or invalid ({cause})"),
        ),
        Some(cause) => kind_of(cause),
        None => (kind::RESET, in_words(error)),
    };
    Failure::new(if in_body { kind::BODY } else { kind }, detail)
}

/// Returns the kind and the details of an error of HTTP/2.
fn kind_of(cause: &h2::Error) -> (&'static str, String) {
    let code = cause.reason().unwrap_or(Reason::NO_ERROR);
    let (kind, detail) = match (cause.is_remote(), cause.is_reset()) {
        (true, true) => (
            kind::STREAM_RESET,
            format!("the server reset the stream ({code:?}): {cause}"),
        ),
        // The server has not processed the request, and closes the connection.
        (true, false) if code == Reason::NO_ERROR => (
            kind::RESET,
            "the server closed the connection (GOAWAY) without processing the request".to_owned(),
        ),
        (true, false) => (
            kind::GOAWAY,
            format!("the server ended the connection with GOAWAY ({code:?}): {cause}"),
        ),
        (false, _) if cause.is_library() && code == Reason::FRAME_SIZE_ERROR => (
            kind::PROTOCOL,
            format!("the response is not HTTP/2 ({cause}): {WITHOUT_HTTP2}"),
        ),
        (false, _) if cause.is_library() => (kind::PROTOCOL, cause.to_string()),
        (false, _) => (kind::RESET, cause.to_string()),
    };
    if code == Reason::HTTP_1_1_REQUIRED {
        return (kind, format!("{detail}: {WITHOUT_HTTP2}"));
    }
    (kind, detail)
}

fn h2_error(error: &hyper::Error) -> Option<&h2::Error> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        source = cause.source();
    }
    None
}

/// Formats the error with its causes.
fn in_words(error: &hyper::Error) -> String {
    let mut detail = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !detail.contains(&cause_text) {
            detail = format!("{detail}: {cause_text}");
        }
        source = cause.source();
    }
    detail
}

/// Body of a request, which records the time at which it was consumed.
#[derive(Debug)]
struct Payload {
    data: Bytes,
    taken: Arc<OnceLock<Instant>>,
}

impl http_body::Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // The body is sent in pieces. The connection polls for a piece when it has room.
        let piece = self.data.len().min(64 << 10);
        let piece = self.data.split_to(piece);
        if self.data.is_empty() {
            let _ = self.taken.set(Instant::now());
        }
        Poll::Ready(if piece.is_empty() {
            None
        } else {
            Some(Ok(Frame::data(piece)))
        })
    }

    fn is_end_stream(&self) -> bool {
        if self.data.is_empty() {
            let _ = self.taken.set(Instant::now());
        }
        self.data.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.len() as u64)
    }
}
