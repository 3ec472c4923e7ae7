//! One connection: which protocol it speaks, how long it may take, how it ends.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Method, Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use lucarne_net::OpenConnections;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use crate::activity::{Activity, ObservedStream, TimedOut, Timeouts, Watchdog};
use crate::body::Body;
use crate::budget::{Budget, Client};
use crate::limits::Limits;
use crate::reply::Response;
use crate::sendfile::{QueuedResponse, SendfileStream};
use crate::signal::Signal;
use crate::site::{EndpointSet, Site};
use crate::tls::Acceptor;

/// The state that all connections share.
pub(crate) struct Shared {
    pub(crate) site: Arc<Site>,
    /// Finish what is in flight, take nothing new.
    pub(crate) closing: Signal,
    /// The time to finish is over.
    pub(crate) cut: Signal,
    /// Each answer is the last one of its connection: another process takes over.
    pub(crate) leaving: AtomicBool,
    /// Connections that are open.
    pub(crate) open: OpenConnections,
    /// Submissions without an answer, and connections on which one may come: those on
    /// which nothing was asked yet, and those of HTTP/2.
    pub(crate) submitting: OpenConnections,
    /// The memory that bodies in flight may take.
    budget: Arc<Budget>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

/// Largest head of a request, and hyper's read buffer: no request of either
/// API comes near.
const MAX_HEAD: usize = 16 << 10;

impl Shared {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            // Timed by `Watchdog` instead, which costs nothing per request.
            .header_read_timeout(None)
            // A client that closes its side after the request still gets its
            // answer; and hyper need not try to read while a submission waits.
            .half_close(true)
            .max_header_size(MAX_HEAD)
            .max_buf_size(4 * MAX_HEAD);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(Duration::from_secs(15))
            .max_concurrent_streams(128)
            .max_header_list_size(MAX_HEAD as u32)
            // What a client may send before anybody has read it, and what it may
            // have us write before it reads.
            .initial_stream_window_size(64 << 10)
            .initial_connection_window_size(256 << 10)
            .max_send_buf_size(64 << 10)
            // Streams that are gone and not forgotten yet.
            .max_pending_accept_reset_streams(32)
            .max_local_error_reset_streams(64);
        let (limits, meters) = (&site.limits, site.metrics.inflight.clone());
        Shared {
            budget: Budget::new(limits.inflight_bytes, limits.client_inflight_bytes, meters),
            site,
            closing: Signal::default(),
            cut: Signal::default(),
            leaving: AtomicBool::new(false),
            open: OpenConnections::default(),
            submitting: OpenConnections::default(),
            http1,
            http2,
        }
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Until a connection is to end. Where another process takes over, one that was
    /// just made and on which nothing has been asked yet gets the time to ask.
    async fn ends(&self, used: impl Fn() -> bool) {
        self.closing.raised().await;
        if self.is_leaving() && !used() {
            tokio::time::sleep(FIRST_REQUEST).await;
        }
    }
}

/// The time that a connection gets for its first request when another process takes over.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// Counts a connection for as long as it lives, and knows whose it is.
pub(crate) struct OpenConnection {
    shared: Arc<Shared>,
    client: Arc<Client>,
    /// A first submission may come on it: until something was asked, or HTTP/2 ends.
    submitting: Arc<Mutex<Option<lucarne_net::OpenConnection>>>,
    _counted: lucarne_net::OpenConnection,
}

impl OpenConnection {
    pub(crate) fn new(shared: &Arc<Shared>, peer: IpAddr) -> Self {
        shared.site.metrics.open.inc();
        shared.site.metrics.accepted.inc();
        OpenConnection {
            client: shared.budget.client(peer),
            submitting: Arc::new(Mutex::new(Some(shared.submitting.enter()))),
            _counted: shared.open.enter(),
            shared: shared.clone(),
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.shared.site.metrics.open.dec();
    }
}

/// The ways in which a connection ends.
enum Ending {
    /// As HTTP has it.
    Done,
    /// It is given up.
    TimedOut(TimedOut),
    /// The server has no more time.
    Cut,
}

/// Serves a connection until its end.
pub(crate) async fn serve(
    mut tcp: TcpStream,
    tls: Option<Acceptor>,
    endpoints: EndpointSet,
    open: OpenConnection,
) {
    let shared = &*open.shared;
    if let Some(acceptor) = tls {
        return Box::pin(serve_tls(tcp, acceptor, endpoints, &open)).await;
    }
    let limits = &shared.site.limits;
    let mut limit = limits.idle_timeout;
    let mut used = false;
    // Between requests a connection is little more than its socket: what HTTP
    // needs is in a box of its own, and thrown away after a few idle seconds.
    // Ten thousand idle clients cost a few megabytes that way.
    loop {
        match first_bytes(&tcp, limit, used, shared).await {
            Some(Protocol::Http1) => {
                let queued = Arc::<QueuedResponse>::default();
                let stream = SendfileStream {
                    tcp,
                    queued: queued.clone(),
                };
                let http1 = http1(stream, Some(queued), park_after(limits), endpoints, &open);
                match Box::pin(http1).await {
                    Some(idle) => tcp = idle.tcp,
                    None => return,
                }
            }
            Some(Protocol::Http2) => return Box::pin(http2(tcp, endpoints, &open)).await,
            None => return,
        }
        (limit, used) = (limits.idle_timeout - park_after(limits), true);
    }
}

/// The idle time after which a connection is parked: nothing is left of it but its socket.
fn park_after(limits: &Limits) -> Duration {
    Duration::from_secs(5).min(limits.idle_timeout / 2)
}

/// There is no looking at what TLS has not decrypted: such a connection keeps
/// what it needs.
async fn serve_tls(
    tcp: TcpStream,
    acceptor: Acceptor,
    endpoints: EndpointSet,
    open: &OpenConnection,
) {
    let shared = &*open.shared;
    let limit = shared.site.limits.header_timeout;
    match timeout(limit, acceptor.accept(tcp)).await {
        Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
            Box::pin(http2(stream, endpoints, open)).await;
        }
        Ok(Ok(stream)) => {
            let idle = shared.site.limits.idle_timeout;
            if let Some(stream) = Box::pin(http1(stream, None, idle, endpoints, open)).await {
                shared.site.metrics.cut("idle");
                close(stream, b"").await;
            }
        }
        Ok(Err(error)) => tracing::debug!("TLS handshake: {error}"),
        Err(_) => shared.site.metrics.cut("handshake"),
    }
}

enum Protocol {
    Http1,
    Http2,
}

/// Waits for the first bytes, which stay where they are: HTTP/2 without TLS
/// begins with a request line of its own.
///
/// `hyper_util`'s automatic builder does the same, but puts a buffer of its own
/// between hyper and the socket for the rest of the connection, and waits for
/// the first bytes for ever.
async fn first_bytes(
    tcp: &TcpStream,
    limit: Duration,
    used: bool,
    shared: &Shared,
) -> Option<Protocol> {
    const PREFACE: &[u8] = b"PRI ";
    let sniff = async {
        let mut first = [0; PREFACE.len()];
        let mut pause = Duration::from_millis(5);
        loop {
            match tcp.peek(&mut first).await {
                Ok(0) | Err(_) => return None,
                Ok(n) if first[..n] != PREFACE[..n] => return Some(Protocol::Http1),
                Ok(n) if n == PREFACE.len() => return Some(Protocol::Http2),
                // One to three bytes that could be either: the socket stays
                // readable, so nothing tells when there are more.
                Ok(_) => tokio::time::sleep(pause).await,
            }
            pause = (2 * pause).min(Duration::from_secs(1));
        }
    };
    tokio::select! {
        // What is there already is answered, whatever ends.
        biased;
        protocol = timeout(limit, sniff) => {
            if protocol.is_err() {
                shared.site.metrics.cut("idle");
            }
            protocol.ok().flatten()
        }
        () = shared.ends(|| used) => None,
    }
}

/// Serves HTTP/1 to its end, or until nothing has been asked for `idle`: then
/// the stream comes back, with nothing read from it that was not answered.
async fn http1<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    queued: Option<Arc<QueuedResponse>>,
    idle: Duration,
    endpoints: EndpointSet,
    open: &OpenConnection,
) -> Option<S> {
    let shared = &*open.shared;
    let activity = Arc::new(Activity::new());
    let io = observed(stream, &activity);
    let service = service(open, endpoints, &activity, queued);
    let mut connection = shared.http1.serve_connection(io, service);
    let finish = |c: Pin<&mut http1::Connection<_, _>>| c.graceful_shutdown();
    let limits = &shared.site.limits;
    let timeouts = Timeouts {
        idle,
        head: Some(limits.header_timeout),
        write: limits.write_timeout,
    };
    let ends = shared.ends(|| activity.used());
    let ending = drive(&mut connection, (ends, finish), timeouts, &activity, shared).await;
    let parts = connection.into_parts();
    let stream = parts.io.into_inner().stream;
    match ending {
        Ending::TimedOut(TimedOut::Idle) if parts.read_buf.is_empty() => return Some(stream),
        Ending::TimedOut(TimedOut::Idle) => close(stream, b"").await,
        Ending::TimedOut(TimedOut::Head) => {
            shared.site.metrics.cut("head");
            close(stream, REQUEST_TIMEOUT).await;
        }
        Ending::TimedOut(TimedOut::Writing) => shared.site.metrics.cut("writing"),
        Ending::Done if !activity.ended() => close(stream, b"").await,
        Ending::Done | Ending::Cut => {}
    }
    None
}

async fn http2<S>(stream: S, endpoints: EndpointSet, open: &OpenConnection)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = &*open.shared;
    let activity = Arc::new(Activity::new());
    let io = observed(stream, &activity);
    let service = service(open, endpoints, &activity, None);
    let mut connection = shared.http2.serve_connection(io, service);
    let finish = |c: Pin<&mut http2::Connection<_, _, _>>| c.graceful_shutdown();
    let limits = &shared.site.limits;
    let timeouts = Timeouts {
        idle: limits.idle_timeout,
        // Frames come in at any time; h2 bounds what a head may be.
        head: None,
        write: limits.write_timeout,
    };
    // GOAWAY leaves no request unanswered that was on its way.
    let ends = shared.ends(|| true);
    match drive(&mut connection, (ends, finish), timeouts, &activity, shared).await {
        Ending::TimedOut(TimedOut::Writing) => shared.site.metrics.cut("writing"),
        Ending::TimedOut(_) => shared.site.metrics.cut("idle"),
        Ending::Done | Ending::Cut => {}
    }
}

fn observed<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    activity: &Arc<Activity>,
) -> TokioIo<ObservedStream<S>> {
    TokioIo::new(ObservedStream {
        stream,
        activity: activity.clone(),
    })
}

fn service(
    open: &OpenConnection,
    endpoints: EndpointSet,
    activity: &Arc<Activity>,
    queued: Option<Arc<QueuedResponse>>,
) -> impl HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + Unpin + use<> {
    let (shared, client) = (open.shared.clone(), open.client.clone());
    let first = open.submitting.clone();
    let activity = activity.clone();
    service_fn(move |request: Request<Incoming>| {
        let (shared, client) = (shared.clone(), client.clone());
        let (activity, queued) = (activity.clone(), queued.clone());
        let http1 = request.version() < Version::HTTP_2;
        let submission = (request.method() == Method::POST).then(|| shared.submitting.enter());
        if http1 {
            // Whatever comes after this is counted by itself.
            first.lock().take();
        }
        async move {
            activity.begin();
            let in_flight = InFlightRequest(activity);
            let mut response: Response = shared.site.answer(endpoints, &client, request).await;
            if http1 && shared.is_leaving() {
                response
                    .headers_mut()
                    .insert(CONNECTION, HeaderValue::from_static("close"));
            }
            drop(submission);
            if let Some(queued) = queued {
                queued.put(response.body().bytes(), response.body().file());
            }
            // A connection that takes a feed is not idle.
            response.body_mut().hold(in_flight);
            Ok(response)
        }
    })
}

/// A request in flight, also if it is dropped halfway.
struct InFlightRequest(Arc<Activity>);

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Polls a connection to its end, and watches that it gets there.
async fn drive<C, F>(
    connection: &mut C,
    (ends, finish): (impl Future<Output = ()>, F),
    timeouts: Timeouts,
    activity: &Activity,
    shared: &Shared,
) -> Ending
where
    C: Future<Output = hyper::Result<()>> + Unpin,
    F: Fn(Pin<&mut C>),
{
    let mut watchdog = Watchdog::new(timeouts);
    let mut alarm = pin!(sleep_until(Instant::now() + timeouts.idle));
    let mut armed = false;
    let mut ends = pin!(ends);
    let mut cut = pin!(shared.cut.raised());
    let mut finishing = false;
    poll_fn(|cx| {
        if cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ending::Cut);
        }
        if !finishing && ends.as_mut().poll(cx).is_ready() {
            finishing = true;
            // What has come already is still answered.
            if Pin::new(&mut *connection).poll(cx).is_ready() {
                return Poll::Ready(Ending::Done);
            }
            finish(Pin::new(connection));
        }
        if let Poll::Ready(outcome) = Pin::new(&mut *connection).poll(cx) {
            if let Err(error) = outcome {
                tracing::debug!("connection: {error}");
            }
            return Poll::Ready(Ending::Done);
        }
        // The alarm is set too early rather than again and again: when it
        // rings, or when less time is left than it knows of, it is set anew.
        while let Some(deadline) = watchdog.look(activity) {
            let deadline = Instant::from_std(deadline);
            if alarm.is_elapsed() && Instant::now() >= deadline {
                return Poll::Ready(Ending::TimedOut(watchdog.timed_out()));
            }
            if armed && !alarm.is_elapsed() && alarm.deadline() <= deadline {
                break;
            }
            alarm.as_mut().reset(deadline);
            armed = true;
            if alarm.as_mut().poll(cx).is_pending() {
                break;
            }
        }
        Poll::Pending
    })
    .await
}

const REQUEST_TIMEOUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\n\
    content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: 40\r\n\r\n\
    the request's head took too long to come";

pub(crate) const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain; charset=utf-8\r\nconnection: close\r\nretry-after: 5\r\n\
    content-length: 49\r\n\r\nthe server has as many connections as it may have";

/// Sends a last answer, closes this side, and listens for a while: closing a
/// socket with unread bytes resets it, and the client might never see the
/// answer to the body that it is still sending.
pub(crate) async fn close<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, last: &'static [u8]) {
    let farewell = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        let mut unread = vec![0; 4 << 10];
        while stream.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _ = timeout(Duration::from_secs(3), farewell).await;
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_fixed_answers_count_right() {
        for answer in [super::REQUEST_TIMEOUT, super::TOO_MANY] {
            let text = std::str::from_utf8(answer).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let length = format!("content-length: {}", body.len());
            assert!(head.contains(&length), "{length}");
        }
    }
}
