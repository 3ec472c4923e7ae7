//! A proxy between a load test and a real log that lies in one chosen way.

mod fault;
mod forger;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lucarne_testkit::{Client, LogUnderTest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use fault::{Asked, Liar};
pub(crate) use fault::{Fault, Observed};
use forger::Forger;

/// The proxy, on a thread of its own; it ends with the value.
pub(crate) struct Proxy {
    address: SocketAddr,
    liar: Arc<Liar>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Proxy {
    /// Stands before `log`, accepting its roots, and commits this fault.
    pub(crate) fn start(log: &LogUnderTest, roots: &str, fault: Fault) -> Self {
        let forger = Forger::of(log, roots);
        let liar = Arc::new(Liar::new(fault, log.client(), forger));
        let (stop, stopped) = oneshot::channel();
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        let served = liar.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => (),
                    () = serve(TcpListener::from_std(socket).unwrap(), served) => (),
                }
            });
        });
        Proxy {
            address,
            liar,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The log's URL as it looks through the proxy.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/test", self.address)
    }

    /// What the proxy did and saw.
    pub(crate) fn observed(&self) -> Observed {
        self.liar.observed()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(listener: TcpListener, liar: Arc<Liar>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        tokio::spawn(connection(stream, liar.clone()));
    }
}

async fn connection(stream: TcpStream, liar: Arc<Liar>) {
    let _ = stream.set_nodelay(true);
    // Whatever this side closes arrives as a reset, which matters only where a
    // request is under way: `Fault::Reset`.
    let _ = stream.set_zero_linger();
    let service = service_fn(move |request| answer(liar.clone(), request));
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    liar: Arc<Liar>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, io::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let path = parts.uri.path();
    let asked = Asked {
        path: path.strip_prefix("/test/").unwrap_or(path).to_owned(),
        method: parts.method,
        headers: parts.headers,
        body,
    };
    liar.answer(asked).await
}

/// What the log itself says.
async fn upstream(client: &Client, asked: &Asked, headers: &[(&str, &str)]) -> Upstream {
    let (method, body) = (asked.method.clone(), asked.body.clone());
    match client.request(method, &asked.path, headers, body).await {
        Ok(response) => response,
        // A log that is down while it restarts.
        Err(error) => lucarne_testkit::Response {
            status: http::StatusCode::BAD_GATEWAY,
            headers: http::HeaderMap::new(),
            body: format!("{error:#}").into(),
        },
    }
}

type Upstream = lucarne_testkit::Response;
