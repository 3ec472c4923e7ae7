//! The way from one instance of a log to another: HTTP/2, and a key that all of them share.
//!
//! # What is kept from whom
//!
//! Whoever is on the way between two instances may read what they say: it is certificates, which
//! will be public in a moment, and their places. Nobody without the key can have an entry taken
//! that was not verified, or give a follower an answer. Each request has a mark (HMAC-SHA-256) of
//! the log, a random number and the sum of its body, and each answer one of that number and its
//! own sum. The mark of a request is held against the key before a byte of its body is read.
//! Whoever repeats a request later has entries logged that are logged already: nothing happens.
//! An answer is good for the one request whose number it has.
//!
//! ```text
//! POST /<Log ID in hex>
//! authorization: Lucarne-1 <number> <SHA-256 of the body> <mark>       → 200
//!                                                        lucarne-mark: <mark>
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::{digest, hmac, rand};
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use lucarne_ct::LogId;
use lucarne_log::{Log, Messenger};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

const SCHEME: &str = "Lucarne-1";
const MARK: &str = "lucarne-mark";
/// Bytes of a random number, which an answer is bound to.
const NUMBER: usize = 16;
/// Most bytes of a request: a megabyte of entries, and one of any size.
const MOST_REQUEST: usize = 8 << 20;
/// Most bytes of an answer.
const MOST_ANSWER: usize = 1 << 20;
/// Connections at once, with and without a key.
const MOST_CONNECTIONS: usize = 32;
/// What a peer may send before its mark was seen.
const WINDOW: u32 = 1 << 20;
/// The time for a connection, for a first request, and for a body.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time for an answer: several rounds.
const ANSWER: Duration = Duration::from_secs(60);
/// The time in which a peer that is gone is noticed.
const ALIVE: Duration = Duration::from_secs(2);

/// The key that all instances of a log share.
#[derive(Clone, Debug)]
pub struct InstanceKey(hmac::Key);

/// The reason why a text is no key.
#[derive(Debug, thiserror::Error)]
#[error("has {0} characters, and needs 32: make one with `openssl rand -base64 32`")]
pub struct ShortKey(usize);

impl InstanceKey {
    /// Takes a text of at least 32 characters as the key.
    ///
    /// # Errors
    /// If it is shorter: it could be guessed.
    pub fn new(text: &str) -> Result<Self, ShortKey> {
        match text.len() {
            length @ ..32 => Err(ShortKey(length)),
            _ => Ok(InstanceKey(hmac::Key::new(
                hmac::HMAC_SHA256,
                text.as_bytes(),
            ))),
        }
    }

    fn mark(&self, what: &str, log: &LogId, number: &[u8], sum: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, &marked(what, log, number, sum))
    }

    fn has_marked(&self, mark: &[u8], what: &str, log: &LogId, number: &[u8], sum: &[u8]) -> bool {
        hmac::verify(&self.0, &marked(what, log, number, sum), mark).is_ok()
    }
}

/// The bytes that a mark is of. All parts but the first have one length.
fn marked(what: &str, log: &LogId, number: &[u8], sum: &[u8]) -> Vec<u8> {
    [what.as_bytes(), &log.0, number, sum].concat()
}

const REQUEST: &str = "lucarne instances 1 request\n";
const RESPONSE: &str = "lucarne instances 1 response\n";

fn sum(body: &[u8]) -> digest::Digest {
    digest::digest(&digest::SHA256, body)
}

/// A follower's connections to the instances that lead, one to each.
#[derive(Debug)]
pub struct InstanceClient {
    key: InstanceKey,
    connections: tokio::sync::Mutex<HashMap<String, SendRequest<Full<Bytes>>>>,
}

impl InstanceClient {
    /// A client with this key.
    pub fn new(key: InstanceKey) -> Self {
        InstanceClient {
            key,
            connections: tokio::sync::Mutex::default(),
        }
    }

    /// The connection to this address, made if there is none.
    async fn connection(&self, address: &str) -> Result<SendRequest<Full<Bytes>>, String> {
        let mut connections = self.connections.lock().await;
        // Those that led before are not asked again.
        connections.retain(|_, connection| !connection.is_closed());
        if let Some(connection) = connections.get(address) {
            return Ok(connection.clone());
        }
        let connecting = async {
            let tcp = TcpStream::connect(address)
                .await
                .map_err(|e| e.to_string())?;
            tcp.set_nodelay(true).map_err(|e| e.to_string())?;
            let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .keep_alive_interval(ALIVE)
                .keep_alive_timeout(ALIVE);
            builder
                .handshake(TokioIo::new(tcp))
                .await
                .map_err(|e| e.to_string())
        };
        let connected = timeout(PATIENCE, connecting).await;
        let (sender, connection) = connected
            .unwrap_or_else(|_| Err("does not answer".into()))
            .map_err(|problem| format!("the instance at {address}, which leads: {problem}"))?;
        tokio::spawn(connection);
        connections.insert(address.to_owned(), sender.clone());
        Ok(sender)
    }

    async fn exchange(&self, address: &str, log: LogId, body: Bytes) -> Result<Bytes, String> {
        let mut connection = self.connection(address).await?;
        let mut number = [0; NUMBER];
        rand::fill(&mut number).map_err(|_| "no random number is to be had".to_owned())?;
        let body_sum = sum(&body);
        let mark = self.key.mark(REQUEST, &log, &number, body_sum.as_ref());
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{address}/{}", hex::encode(log.0)))
            .header(
                AUTHORIZATION,
                format!(
                    "{SCHEME} {} {} {}",
                    hex::encode(number),
                    hex::encode(body_sum),
                    hex::encode(mark)
                ),
            )
            .body(Full::from(body))
            .map_err(|error| format!("{address} is no address: {error}"))?;
        let told = |problem: String| format!("the instance at {address}, which leads: {problem}");
        let response = connection.send_request(request).await;
        let (head, body) = response.map_err(|e| told(e.to_string()))?.into_parts();
        match head.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => {
                return Err(told(
                    "has another key: `key` of `instances` must be the same in all of them".into(),
                ));
            }
            StatusCode::NOT_FOUND => return Err(told("does not have this log".into())),
            status => return Err(told(format!("answers {status}"))),
        }
        let body = Limited::new(body, MOST_ANSWER).collect().await;
        let body = body.map_err(|e| told(e.to_string()))?.to_bytes();
        let mark = head
            .headers
            .get(MARK)
            .and_then(|mark| hex::decode(mark).ok());
        let mark = mark.unwrap_or_default();
        let sum = sum(&body);
        match self
            .key
            .has_marked(&mark, RESPONSE, &log, &number, sum.as_ref())
        {
            true => Ok(body),
            false => Err(told(
                "its answer is not marked with the key: it is none".into(),
            )),
        }
    }
}

#[async_trait]
impl Messenger for InstanceClient {
    async fn ask(&self, address: &str, log: LogId, message: Bytes) -> Result<Bytes, String> {
        let answer = timeout(ANSWER, self.exchange(address, log, message)).await;
        let silent = || format!("the instance at {address}, which leads, does not answer");
        let answer = answer.unwrap_or_else(|_| Err(silent()));
        if answer.is_err() {
            self.connections.lock().await.remove(address);
        }
        answer
    }
}

/// The logs that other instances may send entries for, each with its key.
#[derive(Default)]
pub struct InstanceServer {
    logs: HashMap<[u8; 32], (Arc<Log>, InstanceKey)>,
    connections: AtomicUsize,
    /// The address of who was refused last: it is named once.
    refused: Mutex<Option<std::net::IpAddr>>,
}

impl InstanceServer {
    /// Adds a log.
    pub fn add(&mut self, log: Arc<Log>, key: InstanceKey) {
        let id = log.config().key.log_id().0;
        self.logs.insert(id, (log, key));
    }

    /// Serves on this socket for as long as the process lives.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> Infallible {
        loop {
            let (tcp, peer) = lucarne_net::accept(&listener).await;
            if self.connections.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
                self.connections.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let server = Arc::clone(&self);
            tokio::spawn(async move {
                server.connection(tcp, peer.ip()).await;
                server.connections.fetch_sub(1, Ordering::SeqCst);
            });
        }
    }

    async fn connection(self: &Arc<Self>, tcp: TcpStream, peer: std::net::IpAddr) {
        let _ = tcp.set_nodelay(true);
        let known = Arc::new(AtomicBool::new(false));
        let service = service_fn({
            let (server, known) = (Arc::clone(self), Arc::clone(&known));
            move |request| {
                let (server, known) = (Arc::clone(&server), Arc::clone(&known));
                async move { Ok::<_, Infallible>(server.answer(request, &known, peer).await) }
            }
        });
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(ALIVE)
            .keep_alive_timeout(ALIVE)
            .max_concurrent_streams(128)
            .max_header_list_size(4 << 10)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_pending_accept_reset_streams(32)
            .max_local_error_reset_streams(64);
        let serving = builder.serve_connection(TokioIo::new(tcp), service);
        let stranger = async {
            sleep(PATIENCE).await;
            if known.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            // A peer that has gone is no error.
            _ = serving => {}
            // Who has not shown the key by now has none.
            () = stranger => {}
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        known: &AtomicBool,
        peer: std::net::IpAddr,
    ) -> Response<Full<Bytes>> {
        let id = hex::decode(request.uri().path().trim_start_matches('/'));
        let id = id.ok().and_then(|id| <[u8; 32]>::try_from(id).ok());
        let Some((log, key)) = id.and_then(|id| self.logs.get(&id)) else {
            return empty(StatusCode::NOT_FOUND);
        };
        let id = log.config().key.log_id();
        let authorized = request
            .headers()
            .get(AUTHORIZATION)
            .and_then(Authorization::parse);
        let authorized = authorized.filter(|it| {
            key.has_marked(&it.mark, REQUEST, &id, &it.number, &it.sum)
                && request.method() == Method::POST
        });
        let Some(authorized) = authorized else {
            self.note_refused(peer);
            return empty(StatusCode::UNAUTHORIZED);
        };
        known.store(true, Ordering::SeqCst);
        let body = Limited::new(request.into_body(), MOST_REQUEST).collect();
        let Ok(Ok(body)) = timeout(PATIENCE, body).await else {
            return empty(StatusCode::BAD_REQUEST);
        };
        let body = body.to_bytes();
        if sum(&body).as_ref() != authorized.sum {
            return empty(StatusCode::BAD_REQUEST);
        }
        let answer = log.take_forwarded(body).await;
        let sum = sum(&answer);
        let mark = key.mark(RESPONSE, &id, &authorized.number, sum.as_ref());
        let mut response = Response::new(Full::from(answer));
        if let Ok(mark) = HeaderValue::try_from(hex::encode(mark)) {
            response.headers_mut().insert(MARK, mark);
        }
        response
    }

    fn note_refused(&self, peer: std::net::IpAddr) {
        if self.refused.lock().replace(peer) != Some(peer) {
            tracing::warn!(
                %peer,
                "refused: it does not have the key of `instances`. If it is an instance, give it \
                 the same key"
            );
        }
    }
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// What a request says of itself.
struct Authorization {
    number: [u8; NUMBER],
    sum: [u8; 32],
    mark: [u8; 32],
}

impl Authorization {
    fn parse(value: &HeaderValue) -> Option<Self> {
        let mut parts = value.to_str().ok()?.split(' ');
        (parts.next()? == SCHEME).then_some(())?;
        let mut part = || hex::decode(parts.next()?).ok();
        let (number, sum, mark) = (part()?, part()?, part()?);
        parts.next().is_none().then_some(Authorization {
            number: number.try_into().ok()?,
            sum: sum.try_into().ok()?,
            mark: mark.try_into().ok()?,
        })
    }
}
