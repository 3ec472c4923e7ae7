//! A proxy between a load test and a real log, with one chosen fault.

mod entries;
mod fault;
mod forger;
mod liar;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lucarne_testkit::{Client, LogUnderTest};
use tokio::net::TcpStream;

use crate::common::aside::Aside;
pub(crate) use fault::Fault;
use forger::Forger;
pub(crate) use liar::Observed;
use liar::{Asked, Liar};

/// The proxy. It stops when this value is dropped.
pub(crate) struct Proxy {
    server: Aside,
    liar: Arc<Liar>,
}

impl Proxy {
    /// Starts a proxy to `log`, which accepts these roots, with this fault.
    pub(crate) fn start(log: &LogUnderTest, roots: &str, fault: Fault) -> Self {
        let forger = Forger::of(log, roots);
        let liar = Arc::new(Liar::new(fault, log.client(), forger));
        let served = liar.clone();
        Proxy {
            server: Aside::serve(move |stream| connection(stream, served.clone())),
            liar,
        }
    }

    /// Returns the log's URL through the proxy.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/test", self.server.address)
    }

    /// Returns the counters of the proxy.
    pub(crate) fn observed(&self) -> Observed {
        self.liar.observed()
    }
}

async fn connection(stream: TcpStream, liar: Arc<Liar>) {
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

/// Returns the log's own response.
async fn upstream(client: &Client, asked: &Asked, headers: &[(&str, &str)]) -> Upstream {
    let (method, body) = (asked.method.clone(), asked.body.clone());
    match client.request(method, &asked.path, headers, body).await {
        Ok(response) => response,
        // The log is unavailable during a restart.
        Err(error) => lucarne_testkit::Response {
            status: http::StatusCode::BAD_GATEWAY,
            headers: http::HeaderMap::new(),
            body: format!("{error:#}").into(),
        },
    }
}

type Upstream = lucarne_testkit::Response;
