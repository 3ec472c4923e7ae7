//! HTTP/1.1 on one connection.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, Write};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::BufMut;
use http::Method;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::answer::Progress;
use super::exchange::Record;
use super::{Body, ClientOptions, Endpoint, Request, kind};
use crate::Failure;

/// Wait for the response to `Expect: 100-continue`, after which the body is sent (RFC 9110, section
/// 10.1.1).
const CONTINUE: Duration = Duration::from_secs(1);
/// Maximum number of bytes that one system call reads.
const READ: usize = 64 << 10;
/// Maximum number of slices that one system call writes.
const SLICES: usize = 16;

thread_local! {
    /// Read buffer that all connections of a thread share in turn.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into());
    /// Unused buffers for the heads of requests, kept for later requests of the thread.
    static HEADS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a buffer for the head of a request.
pub(super) fn lend() -> Vec<u8> {
    HEADS
        .with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| Vec::with_capacity(1024))
}

/// Stores a buffer for later use.
pub(super) fn give_back(mut head: Vec<u8>) {
    head.clear();
    if head.capacity() <= 16 << 10 {
        HEADS.with_borrow_mut(|heads| {
            if heads.len() < 64 {
                heads.push(head);
            }
        });
    }
}

/// Writes the head of `request` (RFC 9112, section 3).
pub(super) fn write_head(
    head: &mut Vec<u8>,
    request: &Request<'_>,
    endpoint: &Endpoint,
    options: &ClientOptions,
    keepalive: bool,
) -> Result<(), Failure> {
    let line = |head: &mut Vec<u8>, name: &str, value: &str| {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    };
    check(request)?;
    head.extend_from_slice(request.method.as_str().as_bytes());
    head.push(b' ');
    head.extend_from_slice(request.path_and_query.as_bytes());
    head.extend_from_slice(b" HTTP/1.1\r\n");
    let given = |name: &str| {
        let mut headers = request.headers.iter();
        headers.any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    if !given("host") {
        line(head, "host", &endpoint.authority);
    }
    if !given("user-agent") {
        line(head, "user-agent", super::USER_AGENT);
    }
    if let Some(token) = &options.bearer_token
        && !given("authorization")
    {
        head.extend_from_slice(b"authorization: Bearer ");
        head.extend_from_slice(token.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    for (name, value) in request.headers {
        if !is_framing(name) {
            line(head, name, value);
        }
    }
    let length = request.body.len();
    if length > 0 || [Method::POST, Method::PUT, Method::PATCH].contains(request.method) {
        // Writing to memory cannot fail.
        let _ = write!(head, "content-length: {length}\r\n");
    }
    if !keepalive && !given("connection") {
        line(head, "connection", "close");
    }
    if request.expect_continue && length > 0 {
        line(head, "expect", "100-continue");
    }
    head.extend_from_slice(b"\r\n");
    Ok(())
}

/// Returns whether the client writes this header itself, from the body.
pub(super) fn is_framing(name: &str) -> bool {
    // Most headers are skipped by the length of their names.
    match name.len() {
        14 => name.eq_ignore_ascii_case("content-length"),
        17 => name.eq_ignore_ascii_case("transfer-encoding"),
        _ => false,
    }
}

/// Refuses requests that the server would read as different requests.
pub(super) fn check(request: &Request<'_>) -> Result<(), Failure> {
    let wrong = |detail: String| Err(Failure::new(kind::REQUEST, detail));
    let path = request.path_and_query;
    if !path.starts_with('/') && path != "*" {
        return wrong(format!("the path `{path}` must begin with a slash"));
    }
    if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return wrong(format!(
            "the path `{path}` has a space or a control character"
        ));
    }
    for (name, value) in request.headers {
        let odd = |byte: u8| matches!(byte, b'\r' | b'\n' | 0);
        if name.is_empty() || name.bytes().any(|b| b <= b' ' || b == b':' || b == 0x7f) {
            return wrong(format!("`{name}` is not the name of a header"));
        }
        if value.bytes().any(odd) {
            return wrong(format!("the header `{name}` has a line break or NUL"));
        }
    }
    Ok(())
}

/// Sends `head` and the body, and reads the response into `record`. `record.answer.keep` shows
/// whether the connection can be reused.
pub(super) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    head: &[u8],
    request: &Request<'_>,
    record: &mut Record<'_>,
) -> Result<(), Failure> {
    let asks = request.expect_continue && !request.body.is_empty();
    let mut exchange = Running {
        stream,
        out: Outgoing {
            head,
            body: request.body,
            total: head.len() + request.body.len(),
            written: 0,
        },
        // After this wait, the body is sent without a 100 (RFC 9110, section 10.1.1).
        asked: asks.then(|| Box::pin(sleep(CONTINUE))),
        broken: None,
        record,
    };
    poll_fn(|context| exchange.poll(context)).await
}

/// A request in progress. Writes and reads run concurrently, because a server may respond before it
/// has received the whole request.
struct Running<'a, 'b, 'c, S> {
    stream: &'a mut S,
    out: Outgoing<'b>,
    /// The wait for 100-continue, if the request expects it.
    asked: Option<Pin<Box<Sleep>>>,
    /// Error of writing. The response may have arrived nevertheless.
    broken: Option<io::Error>,
    record: &'a mut Record<'c>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Running<'_, '_, '_, S> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            if self.record.sent.is_none() && self.broken.is_none() {
                match self.poll_write(context) {
                    Poll::Ready(Ok(sent)) => self.record.sent = Some(sent),
                    Poll::Ready(Err(error)) => self.broken = Some(error),
                    Poll::Pending => {}
                }
            }
            match ready!(self.poll_read(context)) {
                Ok(Progress::Done) => {
                    // The server would read an unsent rest of the body as the next request.
                    self.record.answer.keep &= self.record.sent.is_some();
                    return Poll::Ready(Ok(()));
                }
                Ok(Progress::Interim) => {
                    self.asked = None;
                    self.record.first = None;
                }
                Ok(Progress::More) => {}
                Err(failure) => return Poll::Ready(Err(failure)),
            }
        }
    }

    /// Writes the rest of the request. Returns the time at which the last write began: the
    /// server may have the request, and respond, before that write returns.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Instant>> {
        let mut began = None;
        loop {
            if let Some(patience) = &mut self.asked
                && patience.as_mut().poll(context).is_ready()
            {
                self.asked = None;
            }
            let end = match self.asked {
                Some(_) => self.out.head.len(),
                None => self.out.total,
            };
            if self.out.written == end {
                let began = *began.get_or_insert_with(Instant::now);
                ready!(Pin::new(&mut *self.stream).poll_flush(context))?;
                if self.asked.is_some() {
                    return Poll::Pending;
                }
                return Poll::Ready(Ok(began));
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.out.slices(&mut slices, self.asked.is_some());
            let stream = Pin::new(&mut *self.stream);
            began = Some(Instant::now());
            let written = ready!(stream.poll_write_vectored(context, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.written += written;
            self.record.bytes_out += written as u64;
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<Progress, Failure>> {
        let record = &mut *self.record;
        if let Some((space, most)) = record.answer.direct()? {
            let mut space = space.limit(most);
            let read = pin!(self.stream.read_buf(&mut space)).poll(context);
            return Poll::Ready(match ready!(read) {
                Ok(0) => self.eof(),
                Ok(read) => {
                    record.bytes_in += read as u64;
                    record.answer.directly(read);
                    if record.answer.is_done() {
                        Ok(Progress::Done)
                    } else {
                        Ok(Progress::More)
                    }
                }
                Err(error) => self.lost(&error),
            });
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            match ready!(Pin::new(&mut *self.stream).poll_read(context, &mut buffer)) {
                Ok(()) if buffer.filled().is_empty() => Poll::Ready(self.eof()),
                Ok(()) => Poll::Ready(self.received(buffer.filled())),
                Err(error) => Poll::Ready(self.lost(&error)),
            }
        })
    }

    fn received(&mut self, mut bytes: &[u8]) -> Result<Progress, Failure> {
        let record = &mut *self.record;
        record.first.get_or_insert_with(Instant::now);
        record.bytes_in += bytes.len() as u64;
        let mut progress = record.answer.feed(&mut bytes)?;
        while progress == Progress::Interim && !bytes.is_empty() {
            // The final response arrived together with an interim response.
            self.asked = None;
            progress = record.answer.feed(&mut bytes)?;
        }
        if progress == Progress::Done && !bytes.is_empty() {
            let more = bytes.len();
            return Err(Failure::new(
                kind::PROTOCOL,
                format!("{more} bytes arrived after the end of the response"),
            ));
        }
        Ok(progress)
    }

    fn eof(&mut self) -> Result<Progress, Failure> {
        match (self.record.answer.eof(), &self.broken) {
            (Ok(()), _) => Ok(Progress::Done),
            (Err(failure), Some(error)) if failure.kind == kind::RESET => Err(reset(error)),
            (Err(failure), _) => Err(failure),
        }
    }

    /// Handles a broken connection. The end of TLS without `close_notify` ends a response that
    /// lasts until the end of the connection. Any other partial response has a broken body.
    fn lost(&mut self, error: &io::Error) -> Result<Progress, Failure> {
        // rustls reports a missing `close_notify` as this kind.
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let ended = self.eof();
            self.record.unannounced_end = ended.is_ok();
            return ended;
        }
        Err(match self.record.answer.status {
            0 => reset(self.broken.as_ref().unwrap_or(error)),
            _ => Failure::new(
                kind::BODY,
                format!("the connection broke within the body: {error}"),
            ),
        })
    }
}

fn reset(error: &io::Error) -> Failure {
    Failure::new(
        kind::RESET,
        format!("the connection broke before the response: {error}"),
    )
}

/// Bytes to write: the head, then the body.
struct Outgoing<'a> {
    head: &'a [u8],
    body: Body<'a>,
    total: usize,
    written: usize,
}

impl<'a> Outgoing<'a> {
    /// Returns the bytes that are still to be written, up to the number of slices.
    fn slices(&self, slices: &mut [IoSlice<'a>; SLICES], head_only: bool) -> usize {
        let one;
        let body: &[&[u8]] = match (head_only, self.body) {
            (true, _) | (_, Body::Empty) => &[],
            (_, Body::One(bytes)) => {
                one = [bytes];
                &one
            }
            (_, Body::Parts(parts)) => parts,
        };
        let mut skip = self.written;
        let mut count = 0;
        for part in std::iter::once(&self.head).chain(body) {
            if skip >= part.len() {
                skip -= part.len();
            } else if count < SLICES {
                slices[count] = IoSlice::new(&part[skip..]);
                count += 1;
                skip = 0;
            }
        }
        count
    }
}
