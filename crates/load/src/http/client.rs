use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::time::{Instant, timeout_at};

use super::answer::Answer;
use super::body::ReceivedBody;
use super::exchange::Record;
use super::http2::Http2;
use super::stream::Stream;
use super::{BodyReader, ClientOptions, Endpoint, Keep, Request, Response, Version, http1, kind};
use crate::Failure;
use crate::exchange::Resent;

/// Client of one user, which keeps one connection to one endpoint. Requests are sequential.
#[derive(Debug)]
pub struct Client {
    endpoint: Arc<Endpoint>,
    options: Arc<ClientOptions>,
    kept: Option<Kept>,
}

/// Idle time after which an end of the connection counts as the server's cleanup. An earlier end
/// counts as a break under load.
const IDLE: Duration = Duration::from_secs(1);

/// An open connection that no request uses.
#[derive(Debug)]
struct Kept {
    connection: Connection,
    since: Instant,
}

#[derive(Debug)]
enum Connection {
    Http1(Stream),
    Http2(Http2),
}

impl Kept {
    fn new(connection: Connection) -> Self {
        let since = Instant::now();
        Self { connection, since }
    }
}

/// Returns whether a kept connection had ended when the request was sent; then the request is
/// repeated.
fn had_gone(failure: &Failure, record: &Record<'_>) -> bool {
    failure.kind == kind::RESET && record.bytes_in == 0
}

/// Returns whether the connection of a request over HTTP/2 can serve another request.
fn is_usable(outcome: &Result<(), Failure>) -> bool {
    let usable = [
        kind::STREAM_RESET,
        kind::BODY,
        kind::MAX_BODY,
        kind::REQUEST,
    ];
    let failure = outcome.as_ref().err();
    failure.is_none_or(|failure| usable.contains(&failure.kind))
}

/// Returns the reason why a connection had ended after this idle time.
fn reason(idle: Duration) -> Resent {
    if idle >= IDLE {
        Resent::Idle
    } else {
        Resent::Busy
    }
}

impl Client {
    /// Creates a client without a connection. The client resumes only its own TLS sessions.
    pub fn new(endpoint: Arc<Endpoint>, options: Arc<ClientOptions>) -> Self {
        let endpoint = if options.resume {
            endpoint.with_own_sessions()
        } else {
            endpoint
        };
        Self {
            endpoint,
            options,
            kept: None,
        }
    }

    /// Returns the HTTP version in the form of reports.
    pub fn protocol(&self) -> &'static str {
        self.options.version.name()
    }

    /// Returns the endpoint of the requests.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a request and reads the complete response. The future may be dropped at any time; this
    /// closes the connection.
    pub async fn send(&mut self, request: &Request<'_>) -> Response {
        self.receive(request, None).await
    }

    /// Sends a request, and passes the body of the response to `reader` as it arrives. The response
    /// has only the start of the body.
    pub async fn stream<'r>(
        &mut self,
        request: &Request<'_>,
        reader: &'r mut BodyReader<'r>,
    ) -> Response {
        let request = request.keep(Keep::Start);
        self.receive(&request, Some(reader)).await
    }

    async fn receive<'r>(
        &mut self,
        request: &Request<'_>,
        reader: Option<&'r mut BodyReader<'r>>,
    ) -> Response {
        let options = self.options.clone();
        let budget = options.body_budget.as_ref();
        let body = ReceivedBody::new(request, options.max_body, budget, reader);
        let answer = Answer::new(request.method == Method::HEAD, body);
        let mut record = Record::new(answer);
        record.body_out = request.body.len() as u64;
        let until = Instant::from_std(record.started) + options.timeout;
        let work = async {
            match options.version {
                Version::Http1 => self.http1(request, &mut record).await,
                // Boxed, so that the future of HTTP/1.1 stays small.
                Version::Http2 => Box::pin(self.http2(request, &mut record)).await,
            }
        };
        let outcome = match timeout_at(until, work).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let (time, phase) = (options.timeout.as_secs_f64(), record.phase());
                let detail = format!("no complete response within {time:.1} s: stopped {phase}");
                Err(Failure::new(kind::TIMEOUT, detail))
            }
        };
        record.finish(options.version, outcome)
    }

    /// Opens a connection with its handshake, and closes it without a request. The response has
    /// status 0 and the protocol of the connection. If sessions are resumed, waits for the next
    /// ticket after the measured time.
    pub async fn handshake(&mut self) -> Response {
        /// Time to wait for a server that sends no ticket.
        const TICKET_TIMEOUT: Duration = Duration::from_millis(200);
        let options = self.options.clone();
        let (stream, mut response) = self.open().await;
        response.exchange.protocol = match &response.handshake {
            Some(handshake) => handshake.version,
            None if self.endpoint.tls.is_some() => "TLS",
            None => "TCP",
        };
        if let Some(mut stream) = stream {
            let resumable = (response.handshake.as_ref())
                .is_some_and(|handshake| handshake.version == "TLSv1.3");
            if options.resume && resumable {
                let _ = tokio::time::timeout(TICKET_TIMEOUT, stream.ticket()).await;
            }
            stream.close();
        }
        response
    }

    /// Opens a connection without a request. The response has its measurements.
    async fn open(&self) -> (Option<Stream>, Response) {
        let mut record = Record::new(Answer::new(false, ReceivedBody::limited(0)));
        let opened = Stream::open(&self.endpoint, &self.options, &mut record).await;
        let (stream, outcome) = match opened {
            Ok(stream) => (Some(stream), Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        (stream, record.finish(self.options.version, outcome))
    }

    /// Opens a connection of HTTP/2 for [`share`](Client::share), unless one is open. Returns the
    /// measurements of a new connection as a response with status 0.
    pub async fn connect(&mut self) -> Option<Response> {
        if self.shared_connection().is_some() {
            return None;
        }
        let (stream, mut response) = self.open().await;
        if let Some(stream) = stream {
            match Http2::open(stream).await {
                Ok(connection) => self.kept = Some(Kept::new(Connection::Http2(connection))),
                Err(failure) => response.exchange.outcome = Err(failure),
            }
        }
        Some(response)
    }

    /// Returns a client for concurrent requests over the open connection of HTTP/2, if there is
    /// one.
    pub fn share(&self) -> Self {
        Self {
            endpoint: self.endpoint.clone(),
            options: self.options.clone(),
            kept: self.shared_connection(),
        }
    }

    fn shared_connection(&self) -> Option<Kept> {
        match &self.kept.as_ref()?.connection {
            Connection::Http2(connection) if connection.is_open() => {
                Some(Kept::new(Connection::Http2(connection.share())))
            }
            _ => None,
        }
    }

    /// Closes the connection; the next request opens another connection.
    pub fn close(&mut self) {
        if let Some(kept) = self.kept.take()
            && let Connection::Http1(stream) = kept.connection
        {
            stream.close();
        }
    }

    async fn http1(
        &mut self,
        request: &Request<'_>,
        record: &mut Record<'_>,
    ) -> Result<(), Failure> {
        let mut head = http1::lend();
        let options = &self.options;
        http1::write_head(
            &mut head,
            request,
            &self.endpoint,
            options,
            options.keepalive,
        )?;
        let outcome = self.http1_head(&head, request, record).await;
        http1::give_back(head);
        outcome
    }

    async fn http1_head(
        &mut self,
        head: &[u8],
        request: &Request<'_>,
        record: &mut Record<'_>,
    ) -> Result<(), Failure> {
        // Taken, not borrowed: a connection that is dropped during a request is not reused.
        if let Some(Kept { connection, since }) = self.kept.take()
            && let Connection::Http1(mut stream) = connection
            && stream.is_idle()
        {
            let idle = since.elapsed();
            match http1::exchange(&mut stream, head, request, record).await {
                Err(failure) if had_gone(&failure, record) => record.again(reason(idle)),
                outcome => return self.settle(stream, record, outcome),
            }
        }
        let mut stream = Stream::open(&self.endpoint, &self.options, record).await?;
        let outcome = http1::exchange(&mut stream, head, request, record).await;
        self.settle(stream, record, outcome)
    }

    /// Keeps the connection if it can serve another request.
    fn settle(
        &mut self,
        stream: Stream,
        record: &Record<'_>,
        outcome: Result<(), Failure>,
    ) -> Result<(), Failure> {
        if outcome.is_ok() && record.answer.keep && self.options.keepalive {
            self.kept = Some(Kept::new(Connection::Http1(stream)));
        } else {
            stream.close();
        }
        outcome
    }

    async fn http2(
        &mut self,
        request: &Request<'_>,
        record: &mut Record<'_>,
    ) -> Result<(), Failure> {
        http1::check(request)?;
        let token = self.options.bearer_token.as_deref();
        if let Some(Kept { connection, since }) = self.kept.take()
            && let Connection::Http2(mut connection) = connection
            && connection.is_open()
        {
            let idle = since.elapsed();
            match connection
                .exchange(request, &self.endpoint, token, record)
                .await
            {
                Err(failure) if had_gone(&failure, record) => record.again(reason(idle)),
                outcome => {
                    self.keep(connection, &outcome);
                    return outcome;
                }
            }
        }
        let stream = Stream::open(&self.endpoint, &self.options, record).await?;
        let mut connection = Http2::open(stream).await?;
        let outcome = connection
            .exchange(request, &self.endpoint, token, record)
            .await;
        if self.options.keepalive {
            self.keep(connection, &outcome);
        }
        outcome
    }

    /// Keeps a connection of HTTP/2 if it can serve another request.
    fn keep(&mut self, connection: Http2, outcome: &Result<(), Failure>) {
        if is_usable(outcome) {
            self.kept = Some(Kept::new(Connection::Http2(connection)));
        }
    }
}
