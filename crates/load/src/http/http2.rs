//! HTTP/2 on one connection, by hyper.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::AbortHandle;

use super::exchange::Record;
use super::stream::Stream;
use super::{Body, Endpoint, Headers, Request, kind};
use crate::Failure;

/// The detail of a failed body whose stream was reset with NO_ERROR.
const CUT_OFF: &str = "the server reset the stream before the end of the body";

/// A connection; closed when it is dropped.
#[derive(Debug)]
pub(super) struct Http2 {
    sender: SendRequest<Payload>,
    task: AbortHandle,
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Http2 {
    pub(super) async fn open(stream: Stream) -> Result<Self, Failure> {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .max_header_list_size(32 << 10)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(&error, false))?;
        let task = tokio::spawn(async move {
            // Requests report the errors of the connection.
            let _ = connection.await;
        });
        let task = task.abort_handle();
        Ok(Self { sender, task })
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
        record: &mut Record,
    ) -> Result<(), Failure> {
        let taken = Arc::new(OnceLock::new());
        let request = convert(request, endpoint, token, taken.clone())?;
        let sent = cost(request.headers()) + request.uri().path().len() as u64;
        let length = request.body().size_hint().exact().unwrap_or(0);
        let answer = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        let answer = answer.await.map_err(|error| failed(&error, false))?;
        let first = Instant::now();
        record.first = Some(first);
        record.sent = Some(taken.get().copied().unwrap_or(first).min(first));
        record.bytes_out += sent + length;

        let (head, body) = answer.into_parts();
        record.bytes_in += cost(&head.headers);
        record.answer.status = head.status.as_u16();
        record.answer.headers = lines(&head.headers);
        record.answer.keep = true;
        read(body, record).await
    }
}

async fn read(mut body: Incoming, record: &mut Record) -> Result<(), Failure> {
    let most = record.answer.max_body();
    let announced = body.size_hint().lower().min(256 << 10);
    record.answer.body.reserve(announced as usize);
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let Some(frame) = frame.await else {
            // hyper ends a body without an error if its stream is reset with NO_ERROR, although
            // the rest of the body may be missing.
            return if body.is_end_stream() {
                Ok(())
            } else {
                Err(Failure::new(kind::BODY, CUT_OFF))
            };
        };
        let frame = frame.map_err(|error| failed(&error, true))?;
        let Ok(data) = frame.into_data() else {
            continue; // trailers
        };
        record.bytes_in += data.len() as u64;
        if data.len() > most - record.answer.body.len() {
            return Err(record.answer.too_long());
        }
        record.answer.body.extend_from_slice(&data);
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
    for (name, value) in request.headers {
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
    use std::error::Error as _;
    // hyper's text is "http2 error", and its cause has the details.
    let mut detail = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !detail.contains(&cause_text) {
            detail = format!("{detail}: {cause_text}");
        }
        source = cause.source();
    }
    let kind = if in_body {
        kind::BODY
    } else if detail.contains("FRAME_SIZE") || detail.contains("PROTOCOL_ERROR") {
        kind::PROTOCOL
    } else {
        kind::RESET
    };
    Failure::new(kind, detail)
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
