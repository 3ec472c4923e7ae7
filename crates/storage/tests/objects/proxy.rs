//! A proxy in front of a store, which does to requests what networks and
//! overloaded servers do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is answered by the store.
    Pass,
    /// The store never sees it; the answer is this status, and says to slow down.
    Status(u16),
    /// The store never sees it, and it is never answered.
    Hang,
    /// The store does as asked, and its answer is lost with the connection.
    LoseAnswer,
    /// The store does as asked, and its answer is held back.
    HoldAnswer,
}

type Judge = dyn Fn(&Request<Incoming>) -> Fate + Send + Sync;
type Store = Client<HttpConnector, Full<Bytes>>;

/// Runs until it is dropped.
pub(super) struct Proxy {
    pub(super) endpoint: String,
    judge: Arc<Mutex<Arc<Judge>>>,
    struck: Arc<AtomicU64>,
    _connections: JoinSet<()>,
}

impl Proxy {
    pub(super) async fn start(store: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let judge: Arc<Mutex<Arc<Judge>>> = Arc::new(Mutex::new(Arc::new(|_| Fate::Pass)));
        let struck = Arc::new(AtomicU64::new(0));
        let (judges, strikes) = (judge.clone(), struck.clone());
        let client: Store = Client::builder(TokioExecutor::new()).build_http();
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (judge, struck) = (judges.clone(), strikes.clone());
                let client = client.clone();
                let service = service_fn(move |request| {
                    let judge = judge.lock().clone();
                    let fate = judge(&request);
                    if fate != Fate::Pass {
                        struck.fetch_add(1, SeqCst);
                    }
                    suffer(client.clone(), store, request, fate)
                });
                connections.spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self {
            endpoint,
            judge,
            struck,
            _connections: connections,
        }
    }

    /// Judges each request from now on.
    pub(super) fn judge(&self, judge: impl Fn(&Request<Incoming>) -> Fate + Send + Sync + 'static) {
        *self.judge.lock() = Arc::new(judge);
    }

    /// Judges the first `count` requests of this method from now on, and lets
    /// all others pass.
    pub(super) fn strike(&self, method: &'static str, count: u64, fate: Fate) {
        let left = AtomicU64::new(count);
        self.judge(move |request| {
            let mine = request.method() == method;
            let take = |left: u64| left.checked_sub(1);
            match mine && left.fetch_update(SeqCst, SeqCst, take).is_ok() {
                true => fate,
                false => Fate::Pass,
            }
        });
    }

    /// How many requests did not just pass, so far.
    pub(super) fn struck(&self) -> u64 {
        self.struck.load(SeqCst)
    }
}

/// The connection was cut.
#[derive(Debug)]
struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut")
    }
}

impl std::error::Error for Cut {}

async fn suffer(
    client: Store,
    store: SocketAddr,
    request: Request<Incoming>,
    fate: Fate,
) -> Result<Response<Full<Bytes>>, Cut> {
    match fate {
        Fate::Pass => pass(&client, store, request).await,
        Fate::Status(status) => {
            // To the end: an answer before that would look like a broken pipe.
            let _ = request.into_body().collect().await;
            let body = "<Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>";
            let mut answer = Response::new(Full::new(Bytes::from(body)));
            *answer.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok(answer)
        }
        Fate::Hang => std::future::pending().await,
        Fate::LoseAnswer => {
            pass(&client, store, request).await?;
            Err(Cut)
        }
        Fate::HoldAnswer => {
            pass(&client, store, request).await?;
            std::future::pending().await
        }
    }
}

/// As it came, its `Host` included: that is signed.
async fn pass(
    client: &Store,
    store: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Cut> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = format!("http://{store}{path}").parse().unwrap();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    let request = Request::from_parts(parts, Full::new(body));
    let (parts, body) = client.request(request).await.map_err(|_| Cut)?.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    Ok(Response::from_parts(parts, Full::new(body)))
}
