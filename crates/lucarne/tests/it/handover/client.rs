//! Submitters that do not retry, so that each lost request is noticed.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Version, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lucarne_ct::EntryKind;
use lucarne_testkit::{Audit, LogUnderTest, tls_client};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::common::load::Submission;
use crate::common::{EVENT_TIMEOUT, pki};

/// The ways to reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
    Https1,
    Https2,
}

/// The name in the certificates of servers under test.
pub(super) const NAME: &str = "first.example.com";

enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    async fn open(address: SocketAddr, protocol: Protocol) -> Result<Self, String> {
        let refused = |error| format!("connection refused: {error}");
        let tcp = TcpStream::connect(address).await.map_err(refused)?;
        tcp.set_nodelay(true).unwrap();
        let alpn: &[&str] = match protocol {
            Protocol::Http1 => return Self::http1(tcp).await,
            Protocol::Http2 => return Self::http2(tcp).await,
            Protocol::Https1 => &["http/1.1"],
            Protocol::Https2 => &["h2"],
        };
        let config = tls_client([pki().root.cert_der().to_vec()], alpn).unwrap();
        let name = NAME.try_into().unwrap();
        let tls = TlsConnector::from(config).connect(name, tcp).await;
        let tls = tls.map_err(|error| format!("no handshake: {error}"))?;
        match protocol {
            Protocol::Https1 => Self::http1(tls).await,
            _ => Self::http2(tls).await,
        }
    }

    async fn http1<S>(stream: S) -> Result<Self, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let opened = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(Self::Http1(sender))
    }

    async fn http2<S>(stream: S) -> Result<Self, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let opened = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(Self::Http2(sender))
    }

    /// Sends the request. Returns `None` if the server has not processed it.
    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Option<Result<(u16, Bytes), String>> {
        let sent = match self {
            Self::Http1(sender) => {
                sender.ready().await.ok()?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                sender.ready().await.ok()?;
                sender.send_request(request).await
            }
        };
        let response = match sent {
            Err(error) if was_not_processed(&error) => return None,
            Err(error) => return Some(Err(format!("no answer: {error:?}"))),
            Ok(response) => response,
        };
        let status = response.status().as_u16();
        let body = response.into_body().collect().await;
        Some(match body {
            Ok(body) => Ok((status, body.to_bytes())),
            Err(error) => Err(format!("half an answer: {error:?}")),
        })
    }
}

/// Returns true if the request was not sent, or if the server promised not to process it:
/// a GOAWAY with `NO_ERROR` and a smaller stream identifier (RFC 9113, section 6.8).
fn was_not_processed(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref());
    let goaway = |error: &h2::Error| {
        error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
    };
    error.is_canceled() || cause.is_some_and(goaway)
}

/// The latencies of the successful requests, and the errors of the others.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) took: Vec<Duration>,
    pub(super) problems: Vec<String>,
}

impl Outcome {
    pub(super) fn add(&mut self, other: Outcome) {
        self.took.extend(other.took);
        self.problems.extend(other.problems);
    }

    pub(super) fn percentile(&mut self, of_100: usize) -> Duration {
        self.took.sort_unstable();
        let place = (self.took.len() * of_100 / 100).min(self.took.len() - 1);
        self.took[place]
    }
}

/// The common state of all submitters of a log.
#[derive(Clone)]
pub(super) struct Submitters {
    address: SocketAddr,
    origin: String,
    pub(super) audit: Arc<Audit>,
    over: Arc<AtomicBool>,
}

impl Submitters {
    pub(super) fn of(log: &LogUnderTest) -> Self {
        Submitters {
            address: log.address(),
            origin: log.origin(),
            audit: Arc::new(log.audit().unwrap()),
            over: Arc::default(),
        }
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    fn over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Submits new chains, one per `interval` on one kept-alive connection, until the end. Latency
    /// counts from the scheduled time.
    pub(super) async fn submit(self, protocol: Protocol, interval: Duration) -> Outcome {
        let mut outcome = Outcome::default();
        let mut connection = None;
        let mut due = Instant::now() + interval.mul_f64(rand::random());
        while !self.over() {
            // The pace of the submissions: no verdict depends on it.
            tokio::time::sleep_until(due.into()).await;
            let submission = Submission::new(&pki().p256, EntryKind::X509);
            match self.once(&mut connection, protocol, &submission).await {
                Ok(sct) => {
                    outcome.took.push(due.elapsed());
                    self.audit
                        .promised(submission.kind, submission.body.as_bytes(), &sct);
                }
                Err(problem) => {
                    let after = due.elapsed();
                    outcome
                        .problems
                        .push(format!("{protocol:?}, after {after:?}: {problem}"));
                    connection = None;
                }
            }
            due += interval;
        }
        outcome
    }

    async fn once(
        &self,
        connection: &mut Option<Connection>,
        protocol: Protocol,
        submission: &Submission,
    ) -> Result<Bytes, String> {
        loop {
            let open = match connection {
                Some(open) => open,
                None => connection.insert(Connection::open(self.address, protocol).await?),
            };
            let sending = open.send(self.request(protocol, submission));
            let Ok(sent) = timeout(EVENT_TIMEOUT, sending).await else {
                let url = format!("http://{}/ct/v1/add-chain", self.origin);
                return Err(format!("POST {url}: no response within {EVENT_TIMEOUT:?}"));
            };
            match sent {
                Some(Ok((200, sct))) => return Ok(sct),
                Some(Ok((status, body))) => {
                    return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
                }
                Some(Err(problem)) => return Err(problem),
                None => *connection = None,
            }
        }
    }

    fn request(&self, protocol: Protocol, submission: &Submission) -> Request<Full<Bytes>> {
        let (authority, _) = self.origin.split_once('/').unwrap();
        let body = Full::new(Bytes::from(submission.body.clone()));
        let request = Request::post(format!("http://{}/ct/v1/add-chain", self.origin));
        let request = match protocol {
            Protocol::Http1 | Protocol::Https1 => {
                Request::post("/test/ct/v1/add-chain").header(header::HOST, authority)
            }
            Protocol::Http2 | Protocol::Https2 => request.version(Version::HTTP_2),
        };
        request.body(body).unwrap()
    }

    /// Reads the checkpoint in a loop until the end. It must always be available and never become
    /// smaller.
    pub(super) async fn read(self) -> Vec<String> {
        let mut problems = Vec::new();
        while !self.over() {
            if let Err(error) = self.audit.poll().await {
                problems.push(format!("checkpoint: {error:#}"));
            }
            // The interval of the polls: no verdict depends on it.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        problems
    }
}
