use std::{
    fmt,
    net::SocketAddr,
    thread::{self, JoinHandle},
};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::{net::TcpListener, runtime, sync::oneshot, task::JoinSet};

/// An HTTP/1.1 server on loopback, in a separate thread. The server outlives the runtime of the
/// test that started it, and ends with the value.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Service({})", self.address)
    }
}

impl Service {
    /// Starts a server that responds to complete requests. If `answer` returns `None`, the
    /// connection is closed.
    pub(crate) fn start<S, A>(answer: S) -> Result<Self>
    where
        S: Fn(Request<Bytes>) -> A + Clone + Send + 'static,
        A: Future<Output = Option<Response<Bytes>>> + Send + 'static,
    {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("creating the runtime of a server")?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (end, ended) = oneshot::channel();
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(listener, answer) => {}
                    _ = ended => {}
                }
            });
        });
        Ok(Self {
            address,
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve<S, A>(listener: std::net::TcpListener, answer: S)
where
    S: Fn(Request<Bytes>) -> A + Clone + Send + 'static,
    A: Future<Output = Option<Response<Bytes>>> + Send + 'static,
{
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let answer = answer.clone();
        let service = service_fn(move |request| {
            let answer = answer.clone();
            async move {
                let request = whole(request).await.ok_or(Cut)?;
                let response = answer(request).await.ok_or(Cut)?;
                Ok::<_, Cut>(response.map(Full::new))
            }
        });
        connections.spawn(async move {
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn whole(request: Request<Incoming>) -> Option<Request<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    Some(Request::from_parts(parts, body))
}

/// Error that causes hyper to close the connection without a response.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cut")
    }
}

impl std::error::Error for Cut {}

/// Forwards requests to a server.
#[derive(Clone)]
pub(crate) struct Upstream {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Upstream {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            address,
            client: Client::builder(TokioExecutor::new()).build(connector),
        }
    }

    /// Forwards the request unchanged, including its `Host`, which is signed.
    pub(crate) async fn pass(&self, request: Request<Bytes>) -> Option<Response<Bytes>> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = format!("http://{}{path}", self.address).parse().ok()?;
        let request = Request::from_parts(parts, Full::new(body));
        let (parts, body) = self.client.request(request).await.ok()?.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        Some(Response::from_parts(parts, body))
    }
}

/// Returns an error in the format of S3 and of the XML API of Google's store.
pub(crate) fn xml_error(status: u16, code: &str, message: &str) -> Option<Response<Bytes>> {
    let body = format!(
        "<?xml version='1.0' encoding='UTF-8'?>\
         <Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    let mut answer = Response::new(Bytes::from(body));
    *answer.status_mut() = StatusCode::from_u16(status).ok()?;
    Some(answer)
}
