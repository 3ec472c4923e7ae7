//! Communication between the instances of a log: HTTP/2, with a shared key.
//!
//! # Security
//!
//! Traffic between instances is not secret: it consists of certificates, which will be public soon,
//! and their indexes. Without the key, an attacker can neither submit an unverified entry nor send
//! a response to a follower. Each request has a MAC (HMAC-SHA-256) of the log, a random number and
//! the hash of the body. Each response has a MAC of the log, that number and the hash of its own
//! body. The MAC of a request is verified before its body is read.
//!
//! A replayed request only submits entries that are already logged, which has no effect. A response
//! is valid only for the request with its number.
//!
//! ```text
//! POST /<Log ID in hex>
//! authorization: Lucarne-1 <number> <SHA-256 of the body> <mark>       → 200
//!                                                        lucarne-mark: <mark>
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::io;
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
use lucarne_log::{Log, Messenger, MessengerError};
use parking_lot::{Mutex, RwLock};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

const SCHEME: &str = "Lucarne-1";
const MARK: &str = "lucarne-mark";
/// Length in bytes of the random number that binds a response to a request.
const NUMBER: usize = 16;
/// Maximum length of a request in bytes: a megabyte of entries, and one entry of any size.
const MAX_REQUEST: usize = 8 << 20;
/// Maximum length of a response in bytes.
const MAX_RESPONSE: usize = 1 << 20;
/// Maximum number of connections, with and without a key.
const MAX_CONNECTIONS: usize = 32;
/// Bytes that a peer may send before its MAC is verified.
const WINDOW: u32 = 1 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the first request of a connection, and for the body of each request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a response: several rounds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of the pings that detect a dead peer, and the time limit for the response to a ping.
const ALIVE: Duration = Duration::from_secs(2);

/// The key that all instances of a log share.
#[derive(Clone, Debug)]
pub struct InstanceKey(hmac::Key);

/// The text is too short for a key: it could be guessed.
#[derive(Debug, thiserror::Error)]
#[error("expected at least 32 characters, found {0}: create a key with `openssl rand -base64 32`")]
pub struct ShortKey(usize);

impl InstanceKey {
    /// Uses a text of at least 32 bytes as the key.
    ///
    /// # Errors
    /// If the text is shorter: an attacker could guess a short key.
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

/// Returns the bytes that a MAC authenticates. All parts except the first have a fixed length.
fn marked(what: &str, log: &LogId, number: &[u8], sum: &[u8]) -> Vec<u8> {
    [what.as_bytes(), &log.0, number, sum].concat()
}

const REQUEST: &str = "lucarne instances 1 request\n";
const RESPONSE: &str = "lucarne instances 1 response\n";

fn sum(body: &[u8]) -> digest::Digest {
    digest::digest(&digest::SHA256, body)
}

/// The reasons why an exchange with the leader failed. The address of the leader precedes the text.
#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error("does not respond")]
    Silent,
    #[error(transparent)]
    Connection(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error("cannot be reached: the system provides no random numbers")]
    NoRandomness,
    #[error("invalid address: {0}")]
    Address(#[from] http::Error),
    #[error("has another key: `key` of `instances` must be the same in all instances")]
    Key,
    #[error("does not have this log")]
    UnknownLog,
    #[error("responds with {0}")]
    Status(StatusCode),
    #[error(transparent)]
    Body(Box<dyn Error + Send + Sync>),
    #[error("sent a response that the key does not authenticate: the response is ignored")]
    Unmarked,
}

/// The connections of a follower, one to each leading instance.
#[derive(Debug)]
pub struct InstanceClient {
    key: InstanceKey,
    connections: tokio::sync::Mutex<HashMap<String, SendRequest<Full<Bytes>>>>,
}

impl InstanceClient {
    /// Creates a client that authenticates its requests with this key.
    pub fn new(key: InstanceKey) -> Self {
        InstanceClient {
            key,
            connections: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the connection to this address, and connects if there is none.
    async fn connection(&self, address: &str) -> Result<SendRequest<Full<Bytes>>, ExchangeError> {
        let mut connections = self.connections.lock().await;
        // Connections to former leaders are dropped once they are closed.
        connections.retain(|_, connection| !connection.is_closed());
        if let Some(connection) = connections.get(address) {
            return Ok(connection.clone());
        }
        let connecting = async {
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .keep_alive_interval(ALIVE)
                .keep_alive_timeout(ALIVE);
            Ok::<_, ExchangeError>(builder.handshake(TokioIo::new(tcp)).await?)
        };
        let connected = timeout(CONNECT_TIMEOUT, connecting).await;
        let (sender, connection) = connected.unwrap_or(Err(ExchangeError::Silent))?;
        tokio::spawn(connection);
        connections.insert(address.to_owned(), sender.clone());
        Ok(sender)
    }

    async fn exchange(
        &self,
        address: &str,
        log: LogId,
        body: Bytes,
    ) -> Result<Bytes, ExchangeError> {
        let mut connection = self.connection(address).await?;
        let mut number = [0; NUMBER];
        rand::fill(&mut number).map_err(|_| ExchangeError::NoRandomness)?;
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
            .body(Full::from(body))?;
        let response = connection.send_request(request).await?;
        let (head, body) = response.into_parts();
        match head.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Err(ExchangeError::Key),
            StatusCode::NOT_FOUND => return Err(ExchangeError::UnknownLog),
            status => return Err(ExchangeError::Status(status)),
        }
        let body = Limited::new(body, MAX_RESPONSE).collect().await;
        let body = body.map_err(ExchangeError::Body)?.to_bytes();
        let mark = head
            .headers
            .get(MARK)
            .and_then(|mark| hex::decode(mark).ok());
        let mark = mark.unwrap_or_default();
        let sum = sum(&body);
        if self
            .key
            .has_marked(&mark, RESPONSE, &log, &number, sum.as_ref())
        {
            Ok(body)
        } else {
            Err(ExchangeError::Unmarked)
        }
    }
}

#[async_trait]
impl Messenger for InstanceClient {
    async fn ask(
        &self,
        address: &str,
        log: LogId,
        message: Bytes,
    ) -> Result<Bytes, MessengerError> {
        let response = timeout(RESPONSE_TIMEOUT, self.exchange(address, log, message)).await;
        let response = response.unwrap_or(Err(ExchangeError::Silent));
        if response.is_err() {
            self.connections.lock().await.remove(address);
        }
        response.map_err(|error| MessengerError {
            address: address.to_owned(),
            source: error.into(),
        })
    }
}

/// A log, and the key that its instances share.
type KeyedLog = (Arc<Log>, InstanceKey);

/// The logs for which other instances may send entries, by log ID.
#[derive(Default)]
pub struct InstanceServer {
    logs: RwLock<HashMap<[u8; 32], KeyedLog>>,
    connections: AtomicUsize,
    /// The last refused address: repeated refusals of one address are logged once.
    refused: Mutex<Option<std::net::IpAddr>>,
}

impl InstanceServer {
    /// Adds a log. Other instances that have `key` may then send entries for this log.
    pub fn add(&self, log: Arc<Log>, key: InstanceKey) {
        let id = log.config().key.log_id().0;
        self.logs.write().insert(id, (log, key));
    }

    /// Removes a log. Requests of other instances for this log then get 404.
    pub fn remove(&self, log: &LogId) {
        self.logs.write().remove(&log.0);
    }

    /// Accepts connections on this socket forever.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> Infallible {
        loop {
            let (tcp, peer) = lucarne_net::accept(&listener).await;
            if self.connections.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
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
                async move { Ok::<_, Infallible>(server.respond(request, &known, peer).await) }
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
            sleep(REQUEST_TIMEOUT).await;
            if known.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            // A closed connection is not an error.
            _ = serving => {}
            // The peer has not proved knowledge of the key in time.
            () = stranger => {}
        }
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        known: &AtomicBool,
        peer: std::net::IpAddr,
    ) -> Response<Full<Bytes>> {
        let id = hex::decode(request.uri().path().trim_start_matches('/'));
        let id = id.ok().and_then(|id| <[u8; 32]>::try_from(id).ok());
        let found = id.and_then(|id| self.logs.read().get(&id).cloned());
        let Some((log, key)) = found else {
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
        let body = Limited::new(request.into_body(), MAX_REQUEST).collect();
        let Ok(Ok(body)) = timeout(REQUEST_TIMEOUT, body).await else {
            return empty(StatusCode::BAD_REQUEST);
        };
        let body = body.to_bytes();
        if sum(&body).as_ref() != authorized.sum {
            return empty(StatusCode::BAD_REQUEST);
        }
        let message = log.take_forwarded(body).await;
        let sum = sum(&message);
        let mark = key.mark(RESPONSE, &id, &authorized.number, sum.as_ref());
        let mut response = Response::new(Full::from(message));
        if let Ok(mark) = HeaderValue::try_from(hex::encode(mark)) {
            response.headers_mut().insert(MARK, mark);
        }
        response
    }

    fn note_refused(&self, peer: std::net::IpAddr) {
        if self.refused.lock().replace(peer) != Some(peer) {
            tracing::warn!(
                %peer,
                "refused a peer without the key of `instances`. If the peer is an instance, \
                 configure the same key there"
            );
        }
    }
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// The parsed authorization of a request.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_instance_that_refuses_connections_is_named_with_the_reason() {
        // Nothing can listen on port 0.
        let address = "127.0.0.1:0";
        let client = InstanceClient::new(InstanceKey::new(&"k".repeat(32)).unwrap());
        let asked = client.ask(address, LogId([7; 32]), Bytes::new()).await;
        let error = asked.unwrap_err();
        assert_eq!(error.address, address);
        let reason = error.source.downcast_ref::<ExchangeError>();
        assert!(
            matches!(reason, Some(ExchangeError::Connection(_))),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.starts_with("no valid response from the leading instance at 127.0.0.1:0: "),
            "{text}"
        );
    }
}
