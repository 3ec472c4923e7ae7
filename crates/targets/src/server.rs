use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

/// Size limit of a body in bytes.
const MOST: usize = 8 << 20;

/// A complete request.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    /// Returns a header as text, empty if absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    }

    /// Parses the body as JSON; null if it is invalid.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Response of a service.
pub(crate) type Answer = Response<Full<Bytes>>;

/// A service that responds to requests.
pub(crate) trait Service: Send + Sync + 'static {
    /// Responds to a request.
    fn answer(&self, asked: Asked) -> impl Future<Output = Answer> + Send;
}

/// A TLS server for HTTP/1.1 and HTTP/2 on a separate thread, which ends when the value is dropped.
#[derive(Debug)]
pub struct TlsServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TlsServer {
    /// Serves the result of `make`, which runs first, on the server's own runtime.
    pub(crate) fn start<S: Service>(
        address: SocketAddr,
        tls: Arc<ServerConfig>,
        make: impl Future<Output = Result<S>> + Send + 'static,
    ) -> Result<Self> {
        let socket = std::net::TcpListener::bind(address)
            .with_context(|| format!("listening at {address}"))?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let (made, ready) = std::sync::mpsc::channel();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let service = match make.await {
                    Ok(service) => Arc::new(service),
                    Err(error) => {
                        let _ = made.send(Err(error));
                        return;
                    }
                };
                let Ok(listener) = TcpListener::from_std(socket) else {
                    return;
                };
                let _ = made.send(Ok(()));
                tokio::select! {
                    _ = stopped => (),
                    () = accept(listener, TlsAcceptor::from(tls), service) => (),
                }
            });
            // Do not wait for open connections.
            runtime.shutdown_background();
        });
        ready.recv().context("the server did not start")??;
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the listen address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept<S: Service>(listener: TcpListener, acceptor: TlsAcceptor, service: Arc<S>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, acceptor.clone(), service.clone()));
            }
            // No file descriptor is free until other connections end.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection<S: Service>(stream: TcpStream, acceptor: TlsAcceptor, service: Arc<S>) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(answer(&*service, request).await) }
    });
    let _ = auto::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer<S: Service>(service: &S, request: Request<Incoming>) -> Answer {
    let (parts, body) = request.into_parts();
    match Limited::new(body, MOST).collect().await {
        Ok(body) => {
            let asked = Asked {
                method: parts.method,
                uri: parts.uri,
                headers: parts.headers,
                body: body.to_bytes(),
            };
            service.answer(asked).await
        }
        Err(error) => json(413, &serde_json::json!({ "error": error.to_string() })),
    }
}

/// Returns a response in JSON.
pub(crate) fn json(status: u16, body: &serde_json::Value) -> Answer {
    with_type(status, "application/json", body.to_string())
}

/// Returns a response of this media type.
pub(crate) fn with_type(status: u16, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    let kind = http::HeaderValue::from_static(kind);
    answer
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, kind);
    answer
}
