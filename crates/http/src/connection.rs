//! One connection: its protocol, its timeouts and its end.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use http::header::CONNECTION;
use http::{HeaderValue, Method, Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use lucarne_net::OpenConnections;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use crate::activity::{Activity, ObservedStream, TimedOut, Timeouts, Watchdog};
use crate::body::Body;
use crate::budget::{Budget, Client, Exhausted};
use crate::control_frames::ControlFrames;
use crate::farewell::{REQUEST_TIMEOUT, close};
use crate::limits::Limits;
use crate::reply::Response;
use crate::sendfile::{QueuedResponse, SendfileStream};
use crate::signal::Signal;
use crate::site::{EndpointSet, Site};
use crate::tls::Acceptor;

/// The state that all connections share.
pub(crate) struct Shared {
    pub(crate) site: Arc<Site>,
    /// Raised when connections must finish the requests in flight and accept no new requests.
    pub(crate) closing: Signal,
    /// Raised when the time for the shutdown is over: all connections are closed.
    pub(crate) cut: Signal,
    /// Whether each response is the last of its connection, because another process takes over.
    pub(crate) leaving: AtomicBool,
    pub(crate) open: OpenConnections,
    /// Connections that were refused and get an explanation.
    pub(crate) explaining: OpenConnections,
    /// Submissions without a response, and connections that may bring a submission: HTTP/2
    /// connections, and connections without a request so far.
    pub(crate) submitting: OpenConnections,
    /// The memory budget of bodies in flight.
    budget: Arc<Budget>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

/// Maximum size of a request head in bytes. hyper's read buffer may have four times this size. No
/// request of either API comes near this size.
const MAX_HEAD: usize = 16 << 10;

impl Shared {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            // `Watchdog` times the head instead, at no cost per request.
            .header_read_timeout(None)
            // A client that closes its side after the request still gets its response, and hyper
            // need not read while a submission waits.
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
            // Limits on the data that a client may send before the server has read it, and on the
            // data that the server writes before the client reads it.
            .initial_stream_window_size(64 << 10)
            .initial_connection_window_size(256 << 10)
            .max_send_buf_size(64 << 10)
            // Limits on reset streams that are still remembered.
            .max_pending_accept_reset_streams(32)
            .max_local_error_reset_streams(64);
        let (limits, meters) = (&site.limits, site.inflight.clone());
        Shared {
            budget: Budget::new(limits, meters),
            site,
            closing: Signal::default(),
            cut: Signal::default(),
            leaving: AtomicBool::new(false),
            open: OpenConnections::default(),
            explaining: OpenConnections::default(),
            submitting: OpenConnections::default(),
            http1,
            http2,
        }
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Waits until a connection must end. If another process takes over, a new connection without a
    /// request gets some time for its first request.
    async fn ends(&self, used: impl Fn() -> bool) {
        self.closing.raised().await;
        if self.is_leaving() && !used() {
            tokio::time::sleep(FIRST_REQUEST).await;
        }
    }
}

/// Time for the first request of a connection when another process takes over.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// Counts an open connection of a client until the value is dropped.
pub(crate) struct OpenConnection {
    shared: Arc<Shared>,
    client: Arc<Client>,
    /// Counts the connection until its first request, because the first request may be a
    /// submission. HTTP/2 connections are counted until their end.
    submitting: Arc<Mutex<Option<lucarne_net::OpenConnection>>>,
    _counted: lucarne_net::OpenConnection,
}

impl OpenConnection {
    /// Counts a connection of the client at this address.
    ///
    /// # Errors
    /// If the client, or all clients together, have too many connections.
    pub(crate) fn enter(shared: &Arc<Shared>, peer: IpAddr) -> Result<Self, Exhausted> {
        let client = shared.budget.client(peer)?;
        shared.site.metrics.open.inc();
        shared.site.metrics.accepted.inc();
        Ok(OpenConnection {
            client,
            submitting: Arc::new(Mutex::new(Some(shared.submitting.enter()))),
            _counted: shared.open.enter(),
            shared: shared.clone(),
        })
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.shared.site.metrics.open.dec();
    }
}

/// The reasons for the end of a connection.
enum Ending {
    /// The connection ended by the rules of HTTP, or with an error.
    Done,
    TimedOut(TimedOut),
    /// The time for the shutdown is over.
    Cut,
}

/// Serves a connection until its end, or until it must give its place to another one.
pub(crate) async fn serve(
    tcp: TcpStream,
    tls: Option<Acceptor>,
    endpoints: EndpointSet,
    open: OpenConnection,
) {
    let activity = open.client.activity.clone();
    tokio::select! {
        () = serve_tcp(tcp, tls, endpoints, &open) => {}
        () = activity.displaced.raised() => open.shared.site.metrics.cut("displaced"),
    }
}

async fn serve_tcp(
    mut tcp: TcpStream,
    tls: Option<Acceptor>,
    endpoints: EndpointSet,
    open: &OpenConnection,
) {
    let shared = &*open.shared;
    if let Some(acceptor) = tls {
        return Box::pin(serve_tls(tcp, acceptor, endpoints, open)).await;
    }
    let limits = &shared.site.limits;
    let mut limit = limits.idle_timeout;
    let mut used = false;
    // The HTTP state is boxed, and dropped after a few idle seconds. After that, an idle connection
    // keeps little more than its socket. Ten thousand idle clients then cost a few megabytes.
    loop {
        match first_bytes(&tcp, limit, used, shared).await {
            Some(Protocol::Http1) => {
                let queued = Arc::<QueuedResponse>::default();
                let stream = SendfileStream {
                    tcp,
                    queued: queued.clone(),
                };
                let http1 = http1(stream, Some(queued), park_after(limits), endpoints, open);
                match Box::pin(http1).await {
                    Some(idle) => tcp = idle.tcp,
                    None => return,
                }
            }
            Some(Protocol::Http2) => return Box::pin(http2(tcp, endpoints, open)).await,
            None => return,
        }
        (limit, used) = (limits.idle_timeout - park_after(limits), true);
    }
}

/// Returns the idle time after which a connection drops its HTTP state and keeps only its socket.
fn park_after(limits: &Limits) -> Duration {
    Duration::from_secs(5).min(limits.idle_timeout / 2)
}

/// Serves a connection with TLS. The first bytes are encrypted, so the server cannot examine them
/// before it creates the HTTP state. An idle connection therefore keeps its state.
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

/// Waits for the first bytes without consuming them: HTTP/2 without TLS starts with a special
/// request line.
///
/// The automatic builder of `hyper_util` does the same, but keeps another buffer between hyper and
/// the socket for the rest of the connection, and waits for the first bytes without a timeout.
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
                // The first bytes (one to three) fit both protocols. The socket stays readable, so
                // that no event reports further bytes.
                Ok(_) => tokio::time::sleep(pause).await,
            }
            pause = (2 * pause).min(Duration::from_secs(1));
        }
    };
    tokio::select! {
        // A request that has already arrived gets a response, even during shutdown.
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

/// Serves HTTP/1 until its end, or until no request has arrived for `idle`. In that case the stream
/// is returned, and every byte read from it belongs to a completed request.
async fn http1<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    queued: Option<Arc<QueuedResponse>>,
    idle: Duration,
    endpoints: EndpointSet,
    open: &OpenConnection,
) -> Option<S> {
    let shared = &*open.shared;
    let activity = &open.client.activity;
    activity.resume();
    let io = observed(stream, activity, None);
    let service = service(open, endpoints, queued);
    let mut connection = shared.http1.serve_connection(io, service);
    let finish = |c: Pin<&mut http1::Connection<_, _>>| c.graceful_shutdown();
    let limits = &shared.site.limits;
    let timeouts = Timeouts {
        idle,
        head: Some(limits.header_timeout),
        write: limits.write_timeout,
    };
    let ends = shared.ends(|| activity.used());
    let ending = drive(&mut connection, (ends, finish), timeouts, activity, shared).await;
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
        Ending::Done if !activity.ended.is_raised() => close(stream, b"").await,
        Ending::Done | Ending::Cut => {}
    }
    None
}

async fn http2<S>(stream: S, endpoints: EndpointSet, open: &OpenConnection)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = &*open.shared;
    let activity = &open.client.activity;
    activity.resume();
    let io = observed(stream, activity, Some(ControlFrames::new()));
    let service = service(open, endpoints, None);
    let mut connection = shared.http2.serve_connection(io, service);
    let finish = |c: Pin<&mut http2::Connection<_, _, _>>| c.graceful_shutdown();
    let limits = &shared.site.limits;
    let timeouts = Timeouts {
        idle: limits.idle_timeout,
        // Frames may arrive at any time, and h2 limits the size of a head.
        head: None,
        write: limits.write_timeout,
    };
    // With GOAWAY every request that was already sent gets a response.
    let ends = shared.ends(|| true);
    match drive(&mut connection, (ends, finish), timeouts, activity, shared).await {
        Ending::TimedOut(TimedOut::Writing) => shared.site.metrics.cut("writing"),
        Ending::TimedOut(_) => shared.site.metrics.cut("idle"),
        Ending::Done if activity.flooded() => shared.site.metrics.cut("control frames"),
        Ending::Done | Ending::Cut => {}
    }
}

fn observed<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    activity: &Arc<Activity>,
    frames: Option<ControlFrames>,
) -> TokioIo<ObservedStream<S>> {
    TokioIo::new(ObservedStream {
        stream,
        activity: activity.clone(),
        frames,
        ahead: BytesMut::new(),
    })
}

fn service(
    open: &OpenConnection,
    endpoints: EndpointSet,
    queued: Option<Arc<QueuedResponse>>,
) -> impl HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + Unpin + use<> {
    let (shared, client) = (open.shared.clone(), open.client.clone());
    let first = open.submitting.clone();
    service_fn(move |request: Request<Incoming>| {
        let (shared, client) = (shared.clone(), client.clone());
        let (activity, queued) = (client.activity.clone(), queued.clone());
        let http1 = request.version() < Version::HTTP_2;
        let submission = (request.method() == Method::POST).then(|| shared.submitting.enter());
        if http1 {
            // Later submissions on this connection are counted separately.
            first.lock().take();
        }
        async move {
            activity.begin();
            let in_flight = InFlightRequest(activity);
            let mut response: Response = shared.site.respond(endpoints, &client, request).await;
            if http1 && shared.is_leaving() {
                response
                    .headers_mut()
                    .insert(CONNECTION, HeaderValue::from_static("close"));
            }
            drop(submission);
            if let Some(queued) = queued {
                queued.put(response.body().bytes(), response.body().file());
            }
            // A connection with a feed is not idle.
            response.body_mut().hold(in_flight);
            Ok(response)
        }
    })
}

/// A request in flight, counted until the value is dropped.
struct InFlightRequest(Arc<Activity>);

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Polls a connection until its end, and enforces its timeouts.
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
            // Requests that have already arrived still get a response.
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
        // The timer may fire too early, which is cheaper than a reset per request. The timer is set
        // again when it fires, and when the deadline becomes earlier than the timer.
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
